// Shows what a call would send: asked of the server, which makes no request for it.

import { code, el, the } from "./dom.js";
import { post } from "./events.js";
import { parse, write } from "./json.js";
import { unfit } from "./account.js";

const PAUSE = 300; // milliseconds without typing
let timer = 0;
let asked = new AbortController();
let shown = null; // the method whose prompt it is

/** Show the prompt of a method for what `body` gives, once nobody types any more. */
export function showPrompt(method, body) {
  clearTimeout(timer);
  if (method !== shown) forgetPrompt();
  timer = setTimeout(() => ask(method, body), method === shown ? PAUSE : 0);
  shown = method;
}

/** Show none: that of one method must not stand beside another. */
export function forgetPrompt() {
  clearTimeout(timer);
  asked.abort();
  shown = null;
  the("prompt").replaceChildren();
}

async function ask(method, body) {
  asked.abort();
  asked = new AbortController();
  const place = the("prompt");
  if (!method.preview) {
    place.replaceChildren(el("p", {}, "This method has a body of its own: what it sends is not known."));
    return;
  }
  try {
    const response = await post(method.preview, body(), asked.signal);
    const said = parse(await response.text());
    place.replaceChildren(...(response.ok ? preview(said) : [refused(said)]));
  } catch (error) {
    if (error.name !== "AbortError") place.replaceChildren(el("p", {}, `There is no preview: ${error.message}`));
  }
}

function refused(problem) {
  const wrong = (problem.problems ?? []).map((one) => el("li", {}, el("code", {}, one.path), ` ${unfit(one)}`));
  return el("div", {}, el("p", {}, problem.title), el("ul", {}, ...wrong));
}

function preview(said) {
  const options = Object.entries(said.options).map(([name, value]) => `${name} = ${write(value)}`);
  const facts = [
    ["Model", said.model],
    ["Strategy", `${said.strategy}: ${said.reasons.join("; ")}`],
    ["Options", options.join(", ")],
  ].filter(([, value]) => value);
  return [
    el("dl", { class: "facts" }, ...facts.map(([name, value]) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    ...said.messages.map(message),
    said.schema ? code(write(said.schema), `Schema${said.strict ? ", strict" : ""}`) : null,
    ...said.tools.map((tool) =>
      code(`${tool.description}\n${write(tool.parameters)}`, `Tool ${tool.name}`)),
  ].filter(Boolean);
}

function message({ role, parts }) {
  const told = parts.map((part) =>
    "text" in part ? el("div", { class: "text" }, part.text) : el("code", {}, part.media ?? part.call));
  return el("section", { class: `message ${role}` }, el("h3", {}, role), ...told);
}
