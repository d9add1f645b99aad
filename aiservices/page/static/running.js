// Runs a method and shows its outcome.

import { byId } from "./dom.js";
import { events, post } from "./events.js";
import { Outcome, showStatus, showOutcome, showPartial } from "./outcome.js";

let controller = null; // aborts the running call

/** Return true if a call is running. */
export function isRunning() {
  return controller !== null;
}

/** Stop the running call. */
export function stop() {
  controller?.abort();
}

/**
 * Post the JSON text of arguments to the URL that runs a method, and return the outcome. If the service rejects the
 * arguments, call `onRefusal` with the problem and return null.
 */
export async function run(url, body, onRefusal) {
  const own = new AbortController();
  controller = own;
  const outcome = new Outcome();
  const clock = showStarted();
  try {
    const response = await post(url, body, own.signal);
    if (!response.ok) return handleRefusal(outcome, await problemIn(response), onRefusal);
    await readEvents(events(response, (lastId) => post(url, body, own.signal, lastId)), outcome);
    if (!outcome.ended && !outcome.problem) outcome.problem = { title: "The connection was cut off" };
  } catch (error) {
    if (error.name !== "AbortError") outcome.problem = { title: "The service cannot be reached", detail: error.message };
  } finally {
    clearInterval(clock);
    showFinished();
  }
  return outcome;
}

async function readEvents(received, outcome) {
  let frame = 0;
  const draw = () => {
    frame = 0;
    outcome.parseSnapshot();
    showPartial(outcome);
    if (outcome.attempt > 1) showStatus(`Attempt ${outcome.attempt}…`);
  };
  try {
    for await (const event of received) {
      outcome.apply(event);
      frame ||= requestAnimationFrame(draw);
    }
  } finally {
    cancelAnimationFrame(frame);
    outcome.parseSnapshot();
  }
}

function handleRefusal(outcome, problem, onRefusal) {
  if (problem.status === 422 && problem.problems?.length) {
    showOutcome(null);
    showStatus("The arguments do not fit.", "bad");
    onRefusal(problem);
    return null;
  }
  outcome.problem = problem;
  return outcome;
}

async function problemIn(response) {
  try {
    return await response.json();
  } catch {
    return { title: "The response of the service is not valid", status: response.status };
  }
}

function showStarted() {
  const start = Date.now();
  showOutcome(null);
  showStatus("Running…");
  byId("value").setAttribute("aria-busy", "true");
  byId("run").setAttribute("aria-disabled", "true");
  byId("stop").hidden = false;
  if (byId("status").getBoundingClientRect().top > innerHeight) byId("outcome").scrollIntoView();
  return setInterval(() => {
    byId("clock").textContent = `${Math.round((Date.now() - start) / 1000)} s`;
  }, 1000);
}

function showFinished() {
  controller = null;
  const stopHasFocus = document.activeElement === byId("stop");
  byId("run").removeAttribute("aria-disabled");
  byId("stop").hidden = true;
  byId("clock").textContent = "";
  if (stopHasFocus) byId("run").focus();
}
