// Shows calls as a tree. Its steps have ids, refer to their parents, and arrive while the calls run.

import { el } from "./dom.js";

const SHORT = 80; // characters of a text that is shown without being opened
const PREVIEW = 200; // characters of other texts, of which one line is visible

/** A tree of calls. `update` adds steps, and changes those that it has; what the user opened stays open. */
export class CallTree {
  constructor() {
    this.parts = new Map(); // the elements of each step, by its id
    this.list = el("ul", { class: "steps" });
    this.element = el("section", { class: "call-tree", "aria-label": "Calls" }, this.list);
    this.seconds = 0;
  }

  /** Show new and changed steps. */
  update(steps) {
    for (const step of steps) {
      this.show(step, this.parts.get(step.id) ?? this.add(step));
      this.seconds = Math.max(this.seconds, step.start + (step.seconds ?? 0));
    }
    this.list.style.setProperty("--seconds", this.seconds || 1);
  }

  add(step) {
    const part = {
      name: el("span", { class: "name" }, step.name),
      facts: el("span", { class: "facts-line" }),
      bar: el("span", { class: "bar", "aria-hidden": "true" }, el("span", {})),
      texts: el("div", { class: "texts" }),
      list: el("ul", { class: "steps" }),
      shown: 0, // texts that are shown
      state: "",
    };
    const start = el("span", { class: "start" }, `+${step.start.toFixed(2)} s`);
    const summary = el("summary", {}, el("span", { class: "title" }, part.name, " ", part.facts), start, part.bar);
    part.details = el("details", { open: step.kind === "call" || step.kind === "tool" }, summary, part.texts, part.list);
    part.item = el("li", {}, part.details);
    (this.parts.get(step.parent)?.list ?? this.list).append(part.item);
    this.parts.set(step.id, part);
    return part;
  }

  show(step, part) {
    part.facts.replaceChildren(...step.facts.flatMap((fact, index) => [index ? " · " : "", el("span", {}, fact)]));
    part.item.className = `step ${step.kind} ${step.state}`;
    part.bar.style.setProperty("--start", step.start);
    part.bar.style.setProperty("--length", step.seconds ?? "");
    part.texts.append(...step.texts.slice(part.shown).map(textElement));
    part.shown = step.texts.length;
    if (step.state !== part.state && (step.state === "failed" || step.state === "rejected")) part.details.open = true;
    part.state = step.state;
  }
}

function textElement([label, text]) {
  const name = el("span", { class: "label" }, label);
  if (text.length <= SHORT && !text.includes("\n")) return el("p", {}, name, " ", el("code", {}, text));
  const start = text.slice(0, PREVIEW).replace(/\s+/g, " ");
  return el("details", {},
    el("summary", {}, name, " ", el("code", {}, start)),
    el("pre", { tabindex: "0", role: "region", "aria-label": label || "Event" }, text));
}
