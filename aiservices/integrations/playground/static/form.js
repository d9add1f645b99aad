// The form of a method: a field for each argument, the JSON that they make, and complaints at the right field.

import { unfit } from "./account.js";
import { Unfit, record, unless } from "./controls.js";
import { fieldOf } from "./fields.js";

const STEP = /\.([\p{L}_][\p{L}\p{N}_]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]/gu;

/** The form of a method: `elements`, `body()` (throws Unfit), `fill(arguments)`, `complain(problems)`. */
export function formOf(method) {
  const fields = new Map(method.arguments.map((argument) => [argument.name, fieldOfArgument(argument)]));
  const { text, fill, below } = record(fields);
  return {
    elements: [...fields.values()].map((field) => field.element),
    body: text,
    fill,
    complain: (problems) => complain(problems, (path) => fieldAt(below, path)),
  };
}

/** Show what is wrong at its fields, and go to the first. Gives what has no field, as texts. */
function complain(problems, find) {
  const others = [];
  let first = null;
  for (const problem of problems) {
    const field = find(problem.path);
    if (field) field.complain(unfit(problem));
    else others.push(`${problem.path} ${unfit(problem)}`);
    first ??= field;
  }
  first?.focus();
  return others;
}

/** Show what cannot be sent at its fields. Throws again what is something else. */
export function complainOf(error) {
  if (!(error instanceof Unfit)) throw error;
  for (const { field, message } of error.misfits) field.complain(message);
  error.misfits[0].field.focus();
}

function fieldOfArgument(argument) {
  const several = argument.schema.type === "array" && argument.default === null && !argument.required;
  const optional = !argument.required && !several;
  const field = fieldOf(argument.schema, {
    label: argument.name,
    type: argument.role && argument.role !== "media" ? `${argument.type}, ${argument.role}` : argument.type,
    defs: argument.schema.$defs,
    mayBeLeftOut: optional && argument.default === "None",
  });
  return optional ? unless(field, `default ${argument.default}`, null, true) : field;
}

/** The field of a JSON path, or the nearest one around it; null where there is none. */
function fieldAt(below, path) {
  const steps = [...path.matchAll(STEP)].map(([, name, index, key]) =>
    name ?? (index === undefined ? JSON.parse(key) : Number(index)));
  let found = below(steps[0]);
  for (const step of steps.slice(1)) found = found?.below(step) ?? found;
  return found;
}
