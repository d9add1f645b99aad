// Creates elements that show values: objects as lists of their fields, arrays as lists, numbers with all digits.

import { ExactNumber } from "./json.js";
import { el } from "./dom.js";

/** Create an element that shows a value. */
export function valueElement(value) {
  if (value === null) return el("span", { class: "none" }, "null");
  if (typeof value === "boolean") return el("span", { class: "atom" }, String(value));
  if (value instanceof ExactNumber) return el("span", { class: "atom" }, value.text);
  if (typeof value === "string") return el("span", { class: value ? "text" : "none" }, value || "empty text");
  if (Array.isArray(value)) return list(value);
  return record(value);
}

function list(items) {
  if (!items.length) return el("span", { class: "none" }, "empty list");
  const entries = items.map((item) => el("li", {}, valueElement(item)));
  return el("ol", { class: items.some(isRecord) ? "records" : "items" }, ...entries);
}

function record(value) {
  const names = Object.keys(value);
  if (!names.length) return el("span", { class: "none" }, "no fields");
  const rows = names.map((name) =>
    el("div", { class: isRecord(value[name]) || Array.isArray(value[name]) ? "wide" : null },
      el("dt", {}, name), el("dd", {}, valueElement(value[name]))),
  );
  return el("dl", { class: "record" }, ...rows);
}

function isRecord(value) {
  return value !== null && typeof value === "object" && !(value instanceof ExactNumber) && !Array.isArray(value);
}
