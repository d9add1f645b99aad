// Reads Server-Sent Events from the response of a POST request, which EventSource cannot send.

/** Yield the events of a response as {name, data}. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parseEvent(block);
      if (event.event) yield { name: event.event, data: event.data };
    }
  }
}

function parseEvent(block) {
  const event = { event: "", data: "" };
  for (const line of block.split("\n")) {
    const [, name, value] = /^(\w*): ?(.*)$/.exec(line) ?? [];
    if (name) event[name] = value;
  }
  return event;
}

/** Send a JSON text and return the response. */
export function post(url, body, signal) {
  return fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body, signal });
}
