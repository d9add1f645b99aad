// Shows the outcome of a call while it arrives: the value or the problem, the calls inside it, and details at the end.

import { approvalForm } from "./approval.js";
import { callDetails, problemElement, seconds, problemText } from "./call_details.js";
import { CallTree } from "./call_tree.js";
import { code, el, byId } from "./dom.js";
import { parse, write } from "./json.js";
import { valueElement } from "./values.js";

/** The outcome of a call so far. `apply` updates it with an event. */
export class Outcome {
  constructor() {
    this.value = undefined;
    this.snapshot = null; // JSON text; parsed only when it is drawn, and many snapshots are never drawn
    this.problem = null;
    this.account = null;
    this.itemErrors = []; // items that could not be read
    this.ended = false;
    this.attempt = 1;
    this.steps = []; // of the calls, by their ids
    this.changedSteps = []; // that the tree does not show yet
    this.tree = new CallTree();
    this.decide = null; // continues a call that waits for approval
  }

  get isWaiting() {
    return this.problem?.type === "urn:aiservices:approval-required";
  }

  apply({ name, data }) {
    if (name === "attempt") this.beginAttempt(JSON.parse(data).number);
    else if (name === "snapshot" || name === "result") this.snapshot = data;
    else if (name === "text") this.value = (this.value ?? "") + JSON.parse(data);
    else if (name === "item") this.value = [...(this.value ?? []), parse(data)];
    else if (name === "unfit") this.itemErrors.push(JSON.parse(data));
    else if (name === "step") this.setStep(JSON.parse(data));
    else if (name === "error") this.problem = JSON.parse(data);
    else if (name === "end") this.finish(JSON.parse(data));
  }

  /** Start an attempt: discard what came from the one before it. */
  beginAttempt(number) {
    this.attempt = number;
    if (number > 1) [this.value, this.snapshot] = [undefined, null];
  }

  /** Parse the last snapshot. */
  parseSnapshot() {
    if (this.snapshot !== null) this.value = parse(this.snapshot).value;
    this.snapshot = null;
  }

  setStep(step) {
    this.steps[step.id] = step;
    this.changedSteps.push(step);
  }

  /** Return the element with the tree of calls, as far as they are known. */
  treeElement() {
    this.tree.update(this.changedSteps);
    this.changedSteps = [];
    return this.steps.length ? this.tree.element : null;
  }

  /** Mark the steps about whose end nothing was heard. */
  stopSteps() {
    for (const step of this.steps) {
      if (step.state === "running") this.setStep({ ...step, state: "stopped", facts: ["stopped", ...step.facts.slice(1)] });
    }
  }

  finish(account) {
    this.account = account;
    this.ended = true;
  }

  /** Return plain data from which `restoreOutcome` creates an equal outcome. */
  toJson() {
    const { account, itemErrors, ended, steps } = this;
    const problem = this.problem && { ...this.problem, state: undefined }; // it is valid for a time only
    return { value: this.value === undefined ? null : write(this.value), problem, account, itemErrors, ended, steps };
  }

  get summary() {
    const time = this.account ? seconds(this.account.seconds) : "";
    if (this.isWaiting) return "Waiting for a decision";
    if (this.problem) return ["Failed", time && `after ${time}`].filter(Boolean).join(" ");
    if (!this.ended) return "Stopped before the end";
    return ["Done", time && `in ${time}`].filter(Boolean).join(" ");
  }
}

/** Create an outcome from the data of `toJson`. */
export function restoreOutcome(data) {
  const outcome = Object.assign(new Outcome(), data);
  outcome.value = data.value === null ? undefined : parse(data.value);
  outcome.changedSteps = data.steps;
  return outcome;
}

/** Show a complete outcome; clear it if it is null. */
export function showOutcome(outcome) {
  const kind = outcome?.isWaiting ? "waiting" : outcome?.problem ? "bad" : outcome?.ended ? "good" : "";
  showStatus(outcome ? `${outcome.summary}.` : "Not run yet.", kind);
  const element = byId("value");
  element.replaceChildren(...(outcome ? outcomeElements(outcome) : []));
  element.classList.remove("growing");
  element.setAttribute("aria-busy", "false");
  byId("call-details").replaceChildren(...callDetails(outcome?.account));
  outcome?.stopSteps();
  showTree(outcome);
}

function showTree(outcome) {
  const element = outcome?.treeElement() ?? null;
  const container = byId("call-tree");
  if (container.firstChild !== element) container.replaceChildren(...(element ? [element] : []));
}

/** Show an outcome that is still arriving. */
export function showPartial(outcome) {
  const element = byId("value");
  element.setAttribute("aria-busy", "true");
  element.classList.add("growing");
  element.replaceChildren(...(outcome.value === undefined || outcome.value === null ? [] : [valueElement(outcome.value)]));
  showTree(outcome);
}

/** Set the status line, which screen readers announce when it changes. */
export function showStatus(text, kind = "") {
  const element = byId("status");
  if (element.textContent !== text) element.textContent = text;
  element.className = `status ${kind}`;
}

function outcomeElements(outcome) {
  const { value, problem, itemErrors } = outcome;
  const unreadable = itemErrors.map((error) =>
    el("li", {}, `Item ${error.index + 1} does not fit: ${error.problems.map(problemText).join("; ")}`, " ", el("code", {}, error.text)));
  return [
    outcome.isWaiting ? waitingElement(outcome) : problem ? problemElement(problem) : null,
    value !== undefined && (problem || !outcome.ended) ? el("p", { class: "faint" }, "Received until then:") : null,
    value === undefined ? null : valueElement(value),
    unreadable.length ? el("ul", { class: "bad" }, ...unreadable) : null,
    value === undefined ? null : el("details", { class: "as-json" }, el("summary", {}, "As JSON"), code(write(value), "The value as JSON")),
  ].filter(Boolean);
}

function waitingElement({ problem, decide }) {
  if (problem.state && decide) return approvalForm(problem, decide);
  const advice = decide ? "This page does not take decisions." : "Run it again to decide.";
  return el("p", {}, `The call waits for a decision about a tool. ${advice}`);
}
