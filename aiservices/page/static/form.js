// The form of a method: a field for each argument, their JSON text, and error messages at the right fields.

import { problemText } from "./call_details.js";
import { InvalidFieldsError, record, withCheckbox } from "./controls.js";
import { fieldOf } from "./fields.js";

const STEP = /\.([\p{L}_][\p{L}\p{N}_]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]/gu;

/** Create the form of a method: `elements`, `body()` (throws InvalidFieldsError), `fill(arguments)`, `showProblems(problems)`. */
export function formOf(method) {
  const fields = new Map(method.arguments.map((argument) => [argument.name, fieldOfArgument(argument)]));
  const { text, fill, child } = record(fields);
  return {
    elements: [...fields.values()].map((field) => field.element),
    body: text,
    fill,
    showProblems: (problems) => showProblems(problems, (path) => fieldAt(child, path)),
  };
}

/** Show problems at their fields and focus the first one. Returns the texts of problems without a field. */
function showProblems(problems, find) {
  const unmatched = [];
  let first = null;
  for (const problem of problems) {
    const field = find(problem.path);
    if (field) field.showError(problemText(problem));
    else unmatched.push(`${problem.path} ${problemText(problem)}`);
    first ??= field;
  }
  first?.focus();
  return unmatched;
}

/** Show the messages of an InvalidFieldsError at their fields. Throws other errors again. */
export function showFieldErrors(error) {
  if (!(error instanceof InvalidFieldsError)) throw error;
  for (const { field, message } of error.fieldErrors) field.showError(message);
  error.fieldErrors[0].field.focus();
}

function fieldOfArgument(argument) {
  const variadic = argument.schema.type === "array" && argument.default === null && !argument.required;
  const optional = !argument.required && !variadic;
  const field = fieldOf(argument.schema, {
    label: argument.name,
    type: argument.role && argument.role !== "media" ? `${argument.type}, ${argument.role}` : argument.type,
    defs: argument.schema.$defs,
    mayBeLeftOut: optional && argument.default === "None",
  });
  return optional ? withCheckbox(field, `default ${argument.default}`, null, true) : field;
}

/** Return the field of a JSON path, or the nearest enclosing one, or null. */
function fieldAt(child, path) {
  const steps = [...path.matchAll(STEP)].map(([, name, index, key]) =>
    name ?? (index === undefined ? JSON.parse(key) : Number(index)));
  let field = child(steps[0]);
  for (const step of steps.slice(1)) field = field?.child(step) ?? field;
  return field;
}
