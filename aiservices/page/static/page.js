// The page: the selected method, its form and its last outcome.

import { code, el, byId } from "./dom.js";
import { showFieldErrors, formOf } from "./form.js";
import { saveCall } from "./history.js";
import { parse, write } from "./json.js";
import { listCalls, listMethods, titleOf } from "./lists.js";
import { restoreOutcome, showOutcome } from "./outcome.js";
import { clearPrompt, showPrompt } from "./prompt.js";
import { isRunning, run, stop } from "./running.js";
import { connectTabs } from "./tabs.js";

const narrowScreen = matchMedia("(max-width: 859px)");
const entries = new Map(); // by URL: a method with its service, its form and its last outcome
let selected = null;
let markSelected = () => {};
let tab = "tab-result";
let hasSeveralServices = false;

async function start() {
  const response = await fetch("_page/services.json");
  if (!response.ok) throw new Error(`the description of the services cannot be loaded (${response.status})`);
  const services = parse(await response.text());
  const title = services.map(titleOf).join(", ");
  document.title = title;
  byId("title").textContent = title;
  hasSeveralServices = services.length > 1;
  byId("about").textContent = hasSeveralServices ? "" : services[0]?.doc ?? "";
  for (const service of services) {
    for (const method of service.methods) {
      entries.set(address(service, method), { service, method, form: null, outcome: null });
    }
  }
  markSelected = listMethods(services, address);
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
  byId("keys").textContent = `${modifier} + Enter`;
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    void submit();
  });
  byId("form").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      byId("form").requestSubmit();
    }
  });
  for (const kind of ["input", "change"]) byId("form").addEventListener(kind, refreshPrompt);
  byId("stop").addEventListener("click", stop);
  const select = connectTabs(document.querySelector('[role="tablist"]'), (id) => {
    tab = id;
    refreshPrompt();
  });
  byId("form").addEventListener("submit", () => select("tab-result"));
  byId("list").addEventListener("click", (event) => {
    if (event.target.closest("a") && narrowScreen.matches) byId("methods").open = false;
  });
  narrowScreen.addEventListener("change", fold);
  addEventListener("hashchange", route);
}

/** Collapse the lists on a narrow screen, so that the form is visible first. */
function fold() {
  byId("methods").open = !narrowScreen.matches;
  byId("history").open = !narrowScreen.matches;
}

function route() {
  if (location.hash && !location.hash.startsWith("#/")) return; // the link that skips to the form
  const entry = entries.get(location.hash);
  if (entry) select(entry);
  else if (entries.size) select(entries.values().next().value);
}

function select(entry) {
  if (entry === selected) return;
  if (isRunning()) stop();
  const first = selected === null;
  selected = entry;
  const { service, method } = entry;
  entry.form ??= formOf(method);
  markSelected(address(service, method));
  byId("current").textContent = method.name;
  byId("service").textContent = titleOf(service);
  byId("service").hidden = !hasSeveralServices;
  byId("method").textContent = method.name;
  byId("signature").textContent = method.signature;
  byId("doc").textContent = method.doc;
  byId("doc").hidden = !method.doc;
  byId("fields").replaceChildren(...argumentNotes(method), ...entry.form.elements);
  byId("run").hidden = method.missing.length > 0;
  byId("form-error").hidden = true;
  byId("schema").replaceChildren(
    code(write(method.returns.schema), `Answer: ${method.returns.type}`),
    code(write(method.body), "Arguments"),
  );
  byId("call").hidden = false;
  byId("outcome").hidden = false;
  showOutcome(entry.outcome);
  clearPrompt();
  refreshPrompt();
  if (!first) byId("main").focus({ preventScroll: false });
}

function argumentNotes(method) {
  if (method.missing.length) {
    const names = method.missing.join(", ");
    return [el("p", { class: "error" }, `This method cannot be run from here: only the server can set ${names}.`)];
  }
  return method.arguments.length ? [] : [el("p", { class: "faint" }, "It takes no arguments.")];
}

async function submit() {
  if (isRunning() || selected.method.missing.length) return;
  const entry = selected;
  byId("form-error").hidden = true;
  let body;
  try {
    body = entry.form.body();
  } catch (error) {
    showFieldErrors(error);
    return;
  }
  await finish(entry, body, run(entry.method.run, body, (problem) => showRefusal(entry, problem)));
}

/** Show and save the outcome of a call. If it waits for a decision, the decision continues it. */
async function finish(entry, body, running) {
  const outcome = await running;
  if (!outcome) return;
  entry.outcome = outcome;
  outcome.decide = (decision) => {
    if (isRunning()) return;
    void finish(entry, body, run(entry.method.resume, decision, (problem) => {
      if (entry === selected) showOutcome(outcome);
      showRefusal(entry, problem);
    }));
  };
  showOutcome(selected.outcome);
  saveCall({
    service: titleOf(entry.service),
    method: entry.method.name,
    body,
    when: Date.now(),
    summary: outcome.summary,
    waiting: outcome.isWaiting,
    outcome: outcome.toJson(),
  });
  refreshCalls();
}

function showRefusal(entry, problem) {
  if (entry !== selected) return;
  const unmatched = entry.form.showProblems(problem.problems);
  byId("form-error").textContent = unmatched.join("; ");
  byId("form-error").hidden = unmatched.length === 0;
}

function entryOf(call) {
  return [...entries.values()].find(({ service, method }) =>
    titleOf(service) === call.service && method.name === call.method);
}

function refreshCalls() {
  listCalls(entryOf, (call) => {
    const entry = entryOf(call);
    if (isRunning()) stop();
    entry.form ??= formOf(entry.method);
    entry.form.fill(parse(call.body));
    entry.outcome = restoreOutcome(call.outcome);
    if (narrowScreen.matches) byId("history").open = false;
    if (entry === selected) {
      showOutcome(entry.outcome);
      refreshPrompt();
      byId("main").focus();
    } else {
      location.hash = address(entry.service, entry.method);
    }
  });
}

function refreshPrompt() {
  if (tab === "tab-prompt" && selected) showPrompt(selected.method, () => selected.form.body());
}

start().catch((error) => {
  const message = el("p", { class: "error", role: "alert" }, `The page could not be loaded: ${error.message}`);
  byId("main").replaceChildren(message);
});
