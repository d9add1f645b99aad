// Shows the details of a call: time, tokens, attempts, coercions, tools; or its problem.

import { el } from "./dom.js";

/** Create the elements for the details of a call. There are none for a function that create() did not make. */
export function callDetails(details) {
  if (!details) return [];
  return [facts(details), reasons(details), attempts(details), coercions(details), tools(details)].filter(Boolean);
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
    ["Attempts", String(details.attempts.length)],
    ["Strategy", details.strategy ?? "not known"],
  ];
  return el("dl", { class: "facts" }, ...rows.map(([name, value]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function reasons(details) {
  if (!details.reasons.length) return null;
  return el("p", { class: "faint" }, `Why this strategy: ${details.reasons.join("; ")}`);
}

function attempts(details) {
  if (!details.attempts.length) return el("p", { class: "faint" }, "No model was asked.");
  const rows = details.attempts.map((item, index) => {
    const outcome = item.problems.length ? "does not fit" : item.error ?? "accepted";
    const tokens = item.usage ? `, ${item.usage.input_tokens} + ${item.usage.output_tokens} tokens` : "";
    const summary = `${index + 1}. ${item.model}: ${outcome}, ${seconds(item.seconds)}${tokens}`;
    const items = item.problems.map((problem) => el("li", {}, el("code", {}, problem.path), ` ${problemText(problem)}`));
    return el("details", { open: Boolean(item.error) && details.attempts.length > 1 },
      el("summary", { class: item.error ? "bad" : null }, summary),
      items.length ? el("ul", {}, ...items) : null,
      el("pre", { tabindex: "0", role: "region", "aria-label": `Text of attempt ${index + 1}` }, item.text || "No text."));
  });
  return el("section", {}, el("h3", {}, "Attempts"), ...rows);
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

function tools(details) {
  if (!details.tool_runs.length) return null;
  const rows = details.tool_runs.map((run) =>
    el("details", {}, el("summary", {}, `${run.name}(${run.arguments})`), el("pre", { tabindex: "0" }, run.text)));
  return el("section", {}, el("h3", {}, "Tools"), ...rows);
}
