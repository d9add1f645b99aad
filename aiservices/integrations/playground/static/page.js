// The page: which method is chosen, its form, and what was made of it.

import { code, el, the } from "./dom.js";
import { complainOf, formOf } from "./form.js";
import { keep } from "./history.js";
import { parse, write } from "./json.js";
import { listCalls, listMethods, titleOf } from "./lists.js";
import { restored, show } from "./outcome.js";
import { forgetPrompt, showPrompt } from "./prompt.js";
import { isRunning, run, stop } from "./running.js";
import { tabs } from "./tabs.js";

const narrow = matchMedia("(max-width: 859px)");
const found = new Map(); // by its address: a method with its service, its form and its last outcome
let chosen = null;
let mark = () => {};
let tab = "tab-result";
let several = false; // services

async function start() {
  const response = await fetch("_page/services.json");
  if (!response.ok) throw new Error(`the description of the services is not to be had (${response.status})`);
  const services = parse(await response.text());
  const title = services.map(titleOf).join(", ");
  document.title = title;
  the("title").textContent = title;
  several = services.length > 1;
  the("about").textContent = several ? "" : services[0]?.doc ?? "";
  for (const service of services) {
    for (const method of service.methods) {
      found.set(address(service, method), { service, method, form: null, outcome: null });
    }
  }
  mark = listMethods(services, address);
  connect();
  fold();
  route();
  refreshCalls();
}

function address(service, method) {
  return `#/${encodeURIComponent(service.id)}/${encodeURIComponent(method.name)}`;
}

function connect() {
  const modifier = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘" : "Ctrl";
  the("keys").textContent = `${modifier} + Enter`;
  the("form").addEventListener("submit", (event) => {
    event.preventDefault();
    void submit();
  });
  the("form").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      the("form").requestSubmit();
    }
  });
  for (const kind of ["input", "change"]) the("form").addEventListener(kind, refreshPrompt);
  the("stop").addEventListener("click", stop);
  const choose = tabs(document.querySelector('[role="tablist"]'), (id) => {
    tab = id;
    refreshPrompt();
  });
  the("form").addEventListener("submit", () => choose("tab-result"));
  the("list").addEventListener("click", (event) => {
    if (event.target.closest("a") && narrow.matches) the("methods").open = false;
  });
  narrow.addEventListener("change", fold);
  addEventListener("hashchange", route);
}

/** On a narrow screen the lists are folded, so that the form is seen first. */
function fold() {
  the("methods").open = !narrow.matches;
  the("history").open = !narrow.matches;
}

function route() {
  if (location.hash && !location.hash.startsWith("#/")) return; // the link that skips the lists
  const at = found.get(location.hash);
  if (at) choose(at);
  else if (found.size) choose(found.values().next().value);
}

function choose(entry) {
  if (entry === chosen) return;
  if (isRunning()) stop();
  const first = chosen === null;
  chosen = entry;
  const { service, method } = entry;
  entry.form ??= formOf(method);
  mark(address(service, method));
  the("current").textContent = method.name;
  the("service").textContent = titleOf(service);
  the("service").hidden = !several;
  the("method").textContent = method.name;
  the("signature").textContent = method.signature;
  the("doc").textContent = method.doc;
  the("doc").hidden = !method.doc;
  the("fields").replaceChildren(...nobodyGives(method), ...entry.form.elements);
  the("run").hidden = method.missing.length > 0;
  the("unfit").hidden = true;
  the("schema").replaceChildren(
    code(write(method.returns.schema), `Answer: ${method.returns.type}`),
    code(write(method.body), "Arguments"),
  );
  the("call").hidden = false;
  the("outcome").hidden = false;
  show(entry.outcome);
  forgetPrompt();
  refreshPrompt();
  if (!first) the("main").focus({ preventScroll: false });
}

function nobodyGives(method) {
  if (method.missing.length) {
    const names = method.missing.join(", ");
    return [el("p", { class: "error" }, `This method cannot be run from here: ${names} is given where the service runs.`)];
  }
  return method.arguments.length ? [] : [el("p", { class: "faint" }, "It takes no arguments.")];
}

async function submit() {
  if (isRunning() || chosen.method.missing.length) return;
  const entry = chosen;
  the("unfit").hidden = true;
  let body;
  try {
    body = entry.form.body();
  } catch (error) {
    complainOf(error);
    return;
  }
  const outcome = await run(entry.method, body, (problem) => refused(entry, problem));
  if (!outcome) return;
  entry.outcome = outcome;
  if (entry !== chosen) show(chosen.outcome);
  keep({
    service: titleOf(entry.service),
    method: entry.method.name,
    body,
    when: Date.now(),
    summary: outcome.summary,
    outcome: outcome.kept(),
  });
  refreshCalls();
}

function refused(entry, problem) {
  if (entry !== chosen) return;
  const others = entry.form.complain(problem.problems);
  the("unfit").textContent = others.join("; ");
  the("unfit").hidden = others.length === 0;
}

function entryOf(call) {
  return [...found.values()].find(({ service, method }) =>
    titleOf(service) === call.service && method.name === call.method);
}

function refreshCalls() {
  listCalls(entryOf, (call) => {
    const entry = entryOf(call);
    if (isRunning()) stop();
    entry.form ??= formOf(entry.method);
    entry.form.fill(parse(call.body));
    entry.outcome = restored(call.outcome);
    if (narrow.matches) the("history").open = false;
    if (entry === chosen) {
      show(entry.outcome);
      refreshPrompt();
      the("main").focus();
    } else {
      location.hash = address(entry.service, entry.method);
    }
  });
}

function refreshPrompt() {
  if (tab === "tab-prompt" && chosen) showPrompt(chosen.method, () => chosen.form.body());
}

start().catch((error) => {
  const said = el("p", { class: "error", role: "alert" }, `The page could not be made: ${error.message}`);
  the("main").replaceChildren(said);
});
