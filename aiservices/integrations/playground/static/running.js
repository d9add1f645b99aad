// Runs a method, and shows what comes of it.

import { the } from "./dom.js";
import { events, post } from "./events.js";
import { Outcome, say, show, showGrowing } from "./outcome.js";

let calls = null; // what stops the call that is running

/** Whether a call is running. */
export function isRunning() {
  return calls !== null;
}

/** End the call that is running. */
export function stop() {
  calls?.abort();
}

/**
 * Run a method with the JSON text of its arguments; gives the outcome. Gives null when the arguments were
 * refused: `refused` is told of the problem.
 */
export async function run(method, body, refused) {
  const mine = new AbortController();
  calls = mine;
  const outcome = new Outcome();
  const ticking = started();
  try {
    const response = await post(method.run, body, mine.signal);
    if (!response.ok) return refusal(outcome, await problemIn(response), refused);
    await follow(response, outcome);
    if (!outcome.ended && !outcome.problem) outcome.problem = { title: "The connection was cut off" };
  } catch (error) {
    if (error.name !== "AbortError") outcome.problem = { title: "The service cannot be reached", detail: error.message };
  } finally {
    clearInterval(ticking);
    finished();
  }
  show(outcome);
  return outcome;
}

async function follow(response, outcome) {
  let frame = 0;
  const draw = () => {
    frame = 0;
    outcome.settle();
    showGrowing(outcome);
    if (outcome.attempt > 1) say(`Attempt ${outcome.attempt}…`);
  };
  try {
    for await (const event of events(response)) {
      outcome.take(event);
      frame ||= requestAnimationFrame(draw);
    }
  } finally {
    cancelAnimationFrame(frame);
    outcome.settle();
  }
}

function refusal(outcome, problem, refused) {
  if (problem.status === 422 && problem.problems?.length) {
    show(null);
    say("The arguments do not fit.", "bad");
    refused(problem);
    return null;
  }
  outcome.problem = problem;
  show(outcome);
  return outcome;
}

async function problemIn(response) {
  try {
    return await response.json();
  } catch {
    return { title: "The service did not answer as it should", status: response.status };
  }
}

function started() {
  const began = Date.now();
  show(null);
  say("Running…");
  the("value").setAttribute("aria-busy", "true");
  the("run").setAttribute("aria-disabled", "true");
  the("stop").hidden = false;
  if (the("status").getBoundingClientRect().top > innerHeight) the("outcome").scrollIntoView();
  return setInterval(() => {
    the("clock").textContent = `${Math.round((Date.now() - began) / 1000)} s`;
  }, 1000);
}

function finished() {
  calls = null;
  const stopped = document.activeElement === the("stop");
  the("run").removeAttribute("aria-disabled");
  the("stop").hidden = true;
  the("clock").textContent = "";
  if (stopped) the("run").focus();
}
