// Shows what a call would send to the model. The server computes it without a request to the model.

import { code, el, byId } from "./dom.js";
import { post } from "./events.js";
import { parse, write } from "./json.js";
import { problemText } from "./call_details.js";

const TYPING_DELAY = 300; // milliseconds since the last key press
let timer = 0;
let request = new AbortController();
let shownMethod = null; // the method whose prompt is shown

/** Show the prompt of a method for the arguments that `body` returns, after a pause in typing. */
export function showPrompt(method, body) {
  clearTimeout(timer);
  if (method !== shownMethod) clearPrompt();
  timer = setTimeout(() => fetchPreview(method, body), method === shownMethod ? TYPING_DELAY : 0);
  shownMethod = method;
}

/** Remove the prompt, so that it is not shown for another method. */
export function clearPrompt() {
  clearTimeout(timer);
  request.abort();
  shownMethod = null;
  byId("prompt").replaceChildren();
}

async function fetchPreview(method, body) {
  request.abort();
  request = new AbortController();
  const element = byId("prompt");
  if (!method.preview) {
    element.replaceChildren(el("p", {}, "There is no preview: this method was not made by create()."));
    return;
  }
  try {
    const response = await post(method.preview, body(), request.signal);
    const data = parse(await response.text());
    element.replaceChildren(...(response.ok ? previewElements(data) : [refusalElement(data)]));
  } catch (error) {
    if (error.name !== "AbortError") element.replaceChildren(el("p", {}, `There is no preview: ${error.message}`));
  }
}

function refusalElement(problem) {
  const items = (problem.problems ?? []).map((item) => el("li", {}, el("code", {}, item.path), ` ${problemText(item)}`));
  return el("div", {}, el("p", {}, problem.title), el("ul", {}, ...items));
}

function previewElements(data) {
  const options = Object.entries(data.options).map(([name, value]) => `${name} = ${write(value)}`);
  const facts = [
    ["Model", data.model],
    ["Strategy", `${data.strategy}: ${data.reasons.join("; ")}`],
    ["Options", options.join(", ")],
  ].filter(([, value]) => value);
  return [
    el("dl", { class: "facts" }, ...facts.map(([name, value]) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    ...data.messages.map(messageElement),
    data.schema ? code(write(data.schema), `Schema${data.strict ? ", strict" : ""}`) : null,
    ...data.tools.map((tool) =>
      code(`${tool.description}\n${write(tool.parameters)}`, `Tool ${tool.name}`)),
  ].filter(Boolean);
}

function messageElement({ role, parts }) {
  const elements = parts.map((part) =>
    "text" in part ? el("div", { class: "text" }, part.text) : el("code", {}, part.media ?? part.call));
  return el("section", { class: `message ${role}` }, el("h3", {}, role), ...elements);
}
