// Shows how an answer was got: time, tokens, attempts, the steps of its reading, tools; or the problem.

import { el } from "./dom.js";

/** Elements that show the account of a call; none where there is none. */
export function accountOf(account) {
  if (!account) return [];
  return [facts(account), reasons(account), attempts(account), coercions(account), tools(account)].filter(Boolean);
}

/** An element that shows a problem (RFC 9457). */
export function problemOf(problem) {
  const parts = (problem.problems ?? []).map((one) => el("li", {}, el("code", {}, one.path), ` ${unfit(one)}`));
  const said = [problem.detail, problem.retry_after && `It may be tried again in ${problem.retry_after} seconds.`];
  return el("div", { class: "problem" },
    el("p", { class: "headline" }, problem.title ?? "The call failed"),
    ...said.filter(Boolean).map((text) => el("p", {}, text)),
    parts.length ? el("ul", {}, ...parts) : null,
    problem.type ? el("p", { class: "faint" }, el("code", {}, `${problem.status ?? ""} ${problem.type}`.trim())) : null,
  );
}

/** What is wrong, and what was found there. */
export function unfit(problem) {
  return problem.found ? `${problem.message}, found ${problem.found}` : problem.message;
}

/** Seconds in words. */
export function seconds(number) {
  if (number < 0.001) return "less than 1 ms";
  return number < 1 ? `${Math.round(number * 1000)} ms` : `${number.toFixed(1)} s`;
}

function facts(account) {
  const more = [
    account.cached_tokens ? `${account.cached_tokens} of them cached` : "",
    account.reasoning_tokens ? `${account.reasoning_tokens} of the output reasoning` : "",
  ].filter(Boolean);
  const known = [
    ["Time", seconds(account.seconds)],
    ["Tokens", `${account.input_tokens} in, ${account.output_tokens} out${more.length ? ` (${more.join("; ")})` : ""}`],
    ["Attempts", String(account.attempts.length)],
    ["Strategy", account.strategy ?? "not known"],
  ];
  return el("dl", { class: "facts" }, ...known.map(([name, value]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function reasons(account) {
  if (!account.reasons.length) return null;
  return el("p", { class: "faint" }, `Why this strategy: ${account.reasons.join("; ")}`);
}

function attempts(account) {
  if (!account.attempts.length) return el("p", { class: "faint" }, "No model was asked.");
  const rows = account.attempts.map((one, index) => {
    const outcome = one.problems.length ? "does not fit" : one.error ?? "accepted";
    const tokens = one.usage ? `, ${one.usage.input_tokens} + ${one.usage.output_tokens} tokens` : "";
    const said = `${index + 1}. ${one.model}: ${outcome}, ${seconds(one.seconds)}${tokens}`;
    const wrong = one.problems.map((problem) => el("li", {}, el("code", {}, problem.path), ` ${unfit(problem)}`));
    return el("details", { open: Boolean(one.error) && account.attempts.length > 1 },
      el("summary", { class: one.error ? "bad" : null }, said),
      wrong.length ? el("ul", {}, ...wrong) : null,
      el("pre", { tabindex: "0", role: "region", "aria-label": `What attempt ${index + 1} wrote` }, one.text || "Nothing was written."));
  });
  return el("section", {}, el("h3", {}, "Attempts"), ...rows);
}

function coercions(account) {
  if (account.coercions === null) return null;
  const heading = el("h3", {}, "Coercions");
  if (!account.coercions.length) {
    return el("section", {}, heading, el("p", { class: "faint" }, "None: the reply was exact."));
  }
  const rows = account.coercions.map((one) => {
    const change = one.before || one.after ? ` ${one.before} → ${one.after}` : "";
    return el("li", {}, el("code", {}, one.path), ` ${one.rule}${change}`);
  });
  return el("section", {}, heading, el("ul", {}, ...rows));
}

function tools(account) {
  if (!account.tool_runs.length) return null;
  const rows = account.tool_runs.map((run) =>
    el("details", {}, el("summary", {}, `${run.name}(${run.arguments})`), el("pre", { tabindex: "0" }, run.text)));
  return el("section", {}, el("h3", {}, "Tools"), ...rows);
}
