// Shows the details of a call: time, tokens, cost, strategy and coercions; or its problem.

import { el } from "./dom.js";

/** Create the elements for the details of a call. A function that create() did not make has no details. */
export function callDetails(details) {
  if (!details) return [];
  return [facts(details), quotes(details), reasons(details), coercions(details)].filter(Boolean);
}

/** Create the element for a problem (RFC 9457). */
export function problemElement(problem) {
  const parts = (problem.problems ?? []).map((item) => el("li", {}, el("code", {}, item.path), ` ${problemText(item)}`));
  const lines = [problem.detail, problem.retry_after && `It can be tried again in ${problem.retry_after} seconds.`];
  return el("div", { class: "problem" },
    el("p", { class: "headline" }, problem.title ?? "The call failed"),
    ...lines.filter(Boolean).map((text) => el("p", {}, text)),
    parts.length ? el("ul", {}, ...parts) : null,
    problem.type ? el("p", { class: "faint" }, el("code", {}, `${problem.status ?? ""} ${problem.type}`.trim())) : null,
  );
}

/** Return the message of a problem with the text that caused it. */
export function problemText(problem) {
  return problem.found ? `${problem.message}, found ${problem.found}` : problem.message;
}

/** Return a duration as text. */
export function seconds(number) {
  if (number < 0.001) return "less than 1 ms";
  return number < 1 ? `${Math.round(number * 1000)} ms` : `${number.toFixed(1)} s`;
}

function facts(details) {
  const notes = [
    details.cached_tokens ? `${details.cached_tokens} of them cached` : "",
    details.reasoning_tokens ? `${details.reasoning_tokens} of the output reasoning` : "",
  ].filter(Boolean);
  const rows = [
    ["Time", seconds(details.seconds)],
    ["Tokens", `${details.input_tokens} in, ${details.output_tokens} out${notes.length ? ` (${notes.join("; ")})` : ""}`],
    ["Cost", details.cost === null ? "" : details.cost.toFixed(6)],
    ["Attempts", String(details.attempts)],
    ["Strategy", details.strategy ?? "not known"],
  ];
  return el("dl", { class: "facts" }, ...rows.filter(([, value]) => value).map(([name, value]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function quotes(details) {
  if (!details.quotes) return null;
  return el("p", {}, el("a", { href: details.quotes, target: "_blank", rel: "noopener" }, "Show the quotes in the text"));
}

function reasons(details) {
  if (!details.reasons.length) return null;
  return el("p", { class: "faint" }, `Why this strategy: ${details.reasons.join("; ")}`);
}

function coercions(details) {
  if (details.coercions === null) return null;
  const heading = el("h3", {}, "Coercions");
  if (!details.coercions.length) {
    return el("section", {}, heading, el("p", { class: "faint" }, "None: the reply was exact."));
  }
  const rows = details.coercions.map((item) => {
    const change = item.before || item.after ? ` ${item.before} → ${item.after}` : "";
    return el("li", {}, el("code", {}, item.path), ` ${item.rule}${change}`);
  });
  return el("section", {}, heading, el("ul", {}, ...rows));
}
