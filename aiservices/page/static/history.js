// The history of calls, in the local storage of this browser only.

const KEY = "aiservices.runs";
const MAX_CALLS = 30;
const MAX_CHARACTERS = 50_000; // of one call; larger ones are saved without their steps, or not at all

/** Return the saved calls, the most recent one first. */
export function savedCalls() {
  try {
    const calls = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(calls) ? calls : [];
  } catch {
    return []; // local storage is disabled, or its content was changed
  }
}

/** Save a call, and drop the oldest ones if the storage is full. */
export function saveCall(call) {
  const withoutSteps = { ...call, outcome: { ...call.outcome, steps: [] } };
  const saved = [call, withoutSteps].filter((one) => JSON.stringify(one).length <= MAX_CHARACTERS).slice(0, 1);
  const calls = [...saved, ...savedCalls()].slice(0, MAX_CALLS);
  while (calls.length && !store(calls)) calls.pop();
}

/** Delete all saved calls. */
export function clearCalls() {
  try {
    localStorage.removeItem(KEY);
  } catch {
    // local storage is disabled: nothing was saved
  }
}

function store(calls) {
  try {
    localStorage.setItem(KEY, JSON.stringify(calls));
    return true;
  } catch {
    return false;
  }
}
