// Shows what comes of a call, as it comes: the value that grows, the problem, and the account at the end.

import { accountOf, problemOf, seconds, unfit } from "./account.js";
import { code, el, the } from "./dom.js";
import { parse, write } from "./json.js";
import { shown } from "./values.js";

/** What has come of a call. `take` it event by event. */
export class Outcome {
  constructor() {
    this.value = undefined;
    this.snapshot = null; // the JSON of a value that is not read before it is shown
    this.problem = null;
    this.account = null;
    this.misfits = []; // items that are none
    this.ended = false;
    this.attempt = 1;
  }

  take({ name, data }) {
    if (name === "attempt") this.begin(JSON.parse(data).number);
    else if (name === "snapshot" || name === "result") this.snapshot = data;
    else if (name === "text") this.value = (this.value ?? "") + JSON.parse(data);
    else if (name === "item") this.value = [...(this.value ?? []), parse(data)];
    else if (name === "unfit") this.misfits.push(JSON.parse(data));
    else if (name === "error") this.problem = JSON.parse(data);
    else if (name === "end") this.end(JSON.parse(data));
  }

  /** An attempt begins, and what was shown before is no part of its answer. */
  begin(number) {
    this.attempt = number;
    if (number > 1) [this.value, this.snapshot] = [undefined, null];
  }

  /** Read what is to be shown. */
  settle() {
    if (this.snapshot !== null) this.value = parse(this.snapshot).value;
    this.snapshot = null;
  }

  end(account) {
    this.account = account;
    this.ended = true;
  }

  /** Plain data, from which `restored` makes it again. */
  kept() {
    const { problem, account, misfits, ended } = this;
    return { value: this.value === undefined ? null : write(this.value), problem, account, misfits, ended };
  }

  get summary() {
    const time = this.account ? seconds(this.account.seconds) : "";
    if (this.problem) return ["Failed", time && `after ${time}`].filter(Boolean).join(" ");
    if (!this.ended) return "Stopped before the end";
    return ["Done", time && `in ${time}`].filter(Boolean).join(" ");
  }
}

/** The outcome of what was kept. */
export function restored(kept) {
  const outcome = Object.assign(new Outcome(), kept);
  outcome.value = kept.value === null ? undefined : parse(kept.value);
  return outcome;
}

/** Show an outcome that is whole; null: there is none. */
export function show(outcome) {
  say(outcome ? `${outcome.summary}.` : "Not run yet.", outcome?.problem ? "bad" : outcome?.ended ? "good" : "");
  const place = the("value");
  place.replaceChildren(...(outcome ? whole(outcome) : []));
  place.classList.remove("growing");
  place.setAttribute("aria-busy", "false");
  the("account").replaceChildren(...accountOf(outcome?.account));
}

/** Show what there is of an outcome, while more of it comes. */
export function showGrowing(outcome) {
  const place = the("value");
  place.setAttribute("aria-busy", "true");
  place.classList.add("growing");
  place.replaceChildren(...(outcome.value === undefined || outcome.value === null ? [] : [shown(outcome.value)]));
}

/** Say how it stands, also to those who do not see it. */
export function say(text, kind = "") {
  const place = the("status");
  if (place.textContent !== text) place.textContent = text;
  place.className = `status ${kind}`;
}

function whole(outcome) {
  const { value, problem, misfits } = outcome;
  const unread = misfits.map((one) =>
    el("li", {}, `Item ${one.index + 1} does not fit: ${one.problems.map(unfit).join("; ")}`, " ", el("code", {}, one.text)));
  return [
    problem ? problemOf(problem) : null,
    value !== undefined && (problem || !outcome.ended) ? el("p", { class: "faint" }, "What had come by then:") : null,
    value === undefined ? null : shown(value),
    unread.length ? el("ul", { class: "bad" }, ...unread) : null,
    value === undefined ? null : el("details", { class: "as-json" }, el("summary", {}, "As JSON"), code(write(value), "The value as JSON")),
  ].filter(Boolean);
}
