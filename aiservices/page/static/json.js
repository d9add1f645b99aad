// Parses and writes JSON without rounding: JavaScript numbers have only about sixteen digits.

/** A number as the text in which it was written. */
export class ExactNumber {
  constructor(text) {
    this.text = text;
  }
}

export const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const TOKENS = /"(?:[^"\\]|\\.)*"|-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|Infinity)|NaN/g;
const MARK = `digits ${Math.random()}`; // random, so that no received text can contain it

/** Return the value of a JSON text, with ExactNumber for numbers. Throws SyntaxError. */
export function parse(text) {
  const marked = text.replace(TOKENS, (token) =>
    token.startsWith('"') ? token : `{"${MARK}":"${checkNumber(token)}"}`,
  );
  return JSON.parse(marked, (_, value) =>
    value !== null && typeof value === "object" && Object.hasOwn(value, MARK) ? new ExactNumber(value[MARK]) : value,
  );
}

/** Return the JSON text of a value on several lines. */
export function write(value, indent = "") {
  const inner = `${indent}  `;
  if (value instanceof ExactNumber) return value.text;
  if (Array.isArray(value)) {
    const items = value.map((item) => `${inner}${write(item, inner)}`);
    return items.length ? `[\n${items.join(",\n")}\n${indent}]` : "[]";
  }
  if (value !== null && typeof value === "object") {
    const members = Object.entries(value).map(([name, member]) => `${inner}${JSON.stringify(name)}: ${write(member, inner)}`);
    return members.length ? `{\n${members.join(",\n")}\n${indent}}` : "{}";
  }
  return JSON.stringify(value);
}

function checkNumber(token) {
  // NaN and Infinity are not JSON, but the server sends them in unfinished values.
  if (!NUMBER.test(token) && !/^(?:NaN|-?Infinity)$/.test(token)) throw new SyntaxError(`${token} is not a JSON number`);
  return token;
}
