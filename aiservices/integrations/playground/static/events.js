// Reads the events of a call (Server-Sent Events over a POST request), one after the other.

/** The events of a response, as {name, data}; it ends when they do. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const said = fields(block);
      if (said.event) yield { name: said.event, data: said.data };
    }
  }
}

function fields(block) {
  const found = { event: "", data: "" };
  for (const line of block.split("\n")) {
    const [, name, value] = /^(\w*): ?(.*)$/.exec(line) ?? [];
    if (name) found[name] = value;
  }
  return found;
}

/** Send a JSON text; gives the response. */
export function post(url, body, signal) {
  return fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body, signal });
}
