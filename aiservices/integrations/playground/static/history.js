// Keeps the last calls in this browser, and nowhere else.

const KEY = "aiservices.calls";
const MOST = 30;
const LONGEST = 50_000; // characters of an entry: pictures are not kept

/** The calls that are kept, the last one first. */
export function kept() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch {
    return []; // no storage here, or not what was written
  }
}

/** Keep a call; the oldest ones go when there is no room. */
export function keep(call) {
  const calls = JSON.stringify(call).length > LONGEST ? kept() : [call, ...kept()].slice(0, MOST);
  while (calls.length && !stored(calls)) calls.pop();
}

/** Forget all calls. */
export function forget() {
  try {
    localStorage.removeItem(KEY);
  } catch {
    // no storage here: nothing was kept
  }
}

function stored(calls) {
  try {
    localStorage.setItem(KEY, JSON.stringify(calls));
    return true;
  } catch {
    return false;
  }
}
