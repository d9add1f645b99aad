// The form in which a person decides about the tool calls that a call waits for.

import { el, newId } from "./dom.js";

/** Create the form. `decide` gets the JSON text that continues the call. */
export function approvalForm(problem, decide) {
  const rows = problem.calls.map((call) => (call.external ? resultRow(call) : decisionRow(call)));
  const form = el("form", { class: "approval" }, ...rows.map((row) => row.element),
    el("button", { type: "submit", class: "main" }, "Continue"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [approvals, results] = [{}, {}];
    rows.forEach((row) => row.read(approvals, results));
    decide(JSON.stringify({ state: problem.state, approvals, results }));
  });
  return form;
}

function decisionRow(call) {
  const name = newId();
  const choice = (value, text) =>
    el("label", {}, el("input", { type: "radio", name, value, required: true }), ` ${text}`);
  const element = el("fieldset", {}, legendOf(call), choice("yes", "Approve"), choice("no", "Deny"));
  const read = (approvals) => {
    approvals[call.id] = element.querySelector("input:checked").value === "yes";
  };
  return { element, read };
}

function resultRow(call) {
  const input = el("input", { type: "text", required: true, "aria-label": `Result of ${call.name}` });
  const element = el("fieldset", {}, legendOf(call), el("label", {}, "Result, as JSON or as text ", input));
  return { element, read: (_, results) => { results[call.id] = valueOf(input.value); } };
}

function legendOf(call) {
  return el("legend", {}, el("code", {}, `${call.name}(${call.arguments})`));
}

function valueOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
