// JSON whose numbers keep all of their digits: those of JavaScript have sixteen.

/** A number as it was written. */
export class Digits {
  constructor(text) {
    this.text = text;
  }
}

export const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const TOKENS = /"(?:[^"\\]|\\.)*"|-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|Infinity)|NaN/g;
const MARK = `digits ${Math.random()}`; // no text that comes from elsewhere can hold it

/** The value of a JSON text, with Digits for numbers. Throws SyntaxError. */
export function parse(text) {
  const marked = text.replace(TOKENS, (token) =>
    token.startsWith('"') ? token : `{"${MARK}":"${checked(token)}"}`,
  );
  return JSON.parse(marked, (_, value) =>
    value !== null && typeof value === "object" && Object.hasOwn(value, MARK) ? new Digits(value[MARK]) : value,
  );
}

/** The JSON text of a value, on several lines. */
export function write(value, indent = "") {
  const inner = `${indent}  `;
  if (value instanceof Digits) return value.text;
  if (Array.isArray(value)) {
    const items = value.map((item) => `${inner}${write(item, inner)}`);
    return items.length ? `[\n${items.join(",\n")}\n${indent}]` : "[]";
  }
  if (value !== null && typeof value === "object") {
    const members = Object.entries(value).map(([name, one]) => `${inner}${JSON.stringify(name)}: ${write(one, inner)}`);
    return members.length ? `{\n${members.join(",\n")}\n${indent}}` : "{}";
  }
  return JSON.stringify(value);
}

function checked(token) {
  // NaN and Infinity are no JSON, but a value that grows may hold them
  if (!NUMBER.test(token) && !/^(?:NaN|-?Infinity)$/.test(token)) throw new SyntaxError(`${token} is no number of JSON`);
  return token;
}
