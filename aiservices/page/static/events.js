// Reads Server-Sent Events from the response of a POST request, which EventSource cannot send.

const RECONNECT_DELAYS = [0, 200, 1000, 3000, 6000]; // milliseconds

/**
 * Yield the events of a response as {name, data}. If the connection breaks and the stream can be continued,
 * `reconnect(lastId)` returns the response with the events that follow.
 */
export async function* events(response, reconnect) {
  let lastId = "";
  let attempt = 0;
  for (;;) {
    try {
      for await (const { id, event, data } of readEvents(response)) {
        lastId = id || lastId;
        attempt = 0;
        yield { name: event, data };
      }
    } catch (error) {
      if (error.name === "AbortError" || !canContinue(lastId)) throw error;
    }
    if (!canContinue(lastId) || attempt === RECONNECT_DELAYS.length) return;
    await new Promise((resolve) => setTimeout(resolve, RECONNECT_DELAYS[attempt]));
    attempt += 1;
    response = await reconnect(lastId).catch((error) => {
      if (error.name === "AbortError") throw error;
      return new Response(); // the server may be restarting
    });
    if (response.status === 204) return;
    if (!response.ok) response = new Response();
  }
}

/** Return true if the stream of an event can be continued after it. */
function canContinue(id) {
  return id.split(".").length === 4;
}

async function* readEvents(response) {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parseEvent(block);
      if (event.event) yield event;
    }
  }
}

function parseEvent(block) {
  const event = { id: "", event: "", data: "" };
  for (const line of block.split("\n")) {
    const [, name, value] = /^(\w*): ?(.*)$/.exec(line) ?? [];
    if (name) event[name] = value;
  }
  return event;
}

/** Send a JSON text and return the response; with `lastId`, that of a stream after an event. */
export function post(url, body, signal, lastId) {
  const headers = { "Content-Type": "application/json" };
  if (lastId) headers["Last-Event-ID"] = lastId;
  return fetch(url, { method: "POST", headers, body, signal });
}
