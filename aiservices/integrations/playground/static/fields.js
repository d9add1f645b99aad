// Makes form fields of JSON Schemas. A field writes its value as JSON text, so that no digit is lost.

import { labelled, unless } from "./controls.js";
import { el } from "./dom.js";
import { group, list, media } from "./groups.js";
import { NUMBER, parse, write } from "./json.js";

const DEEPEST = 4; // what is nested deeper is typed as JSON
const MEDIA = ["ImageJson", "AudioJson", "FileJson"];

/**
 * The field of a schema: `element`, `text()` (throws Unfit), `fill(value)`, `focus()`, `complain(message)`,
 * `below(step)` (the field of a member or an item), `enable(yes)` and `rename(label)`.
 * `said` has its `label`, the `type` beside it, a `hint`, the `defs` of the schema; whether it is `small`, and
 * whether it `mayBeLeftOut`, which is said instead of null.
 */
export function fieldOf(schema, said, depth = 0) {
  const whole = resolved(schema, said.defs);
  const inner = whole && withoutNull(whole);
  const known = inner && resolved(inner, said.defs);
  const named = { ...said, hint: said.hint ?? schema.description ?? "" };
  const made = kindOf(known, named, depth);
  return inner === whole || said.mayBeLeftOut ? made : nullable(made);
}

function kindOf(schema, said, depth) {
  if (!schema || depth > DEEPEST) return json(said);
  const values = schema.enum ?? ("const" in schema ? [schema.const] : null);
  if (values) return choice(values, said);
  if (MEDIA.includes(schema.title) && schema.properties?.data) return media(schema.title, said);
  if (schema.type === "object" && schema.properties) {
    return group(schema, said, (part, more) => fieldOf(part, { ...more, defs: said.defs }, depth + 1));
  }
  if (schema.type === "array" && schema.items && !schema.prefixItems) {
    return list(schema, said, (part, more) => fieldOf(part, { ...more, defs: said.defs }, depth + 1));
  }
  if (schema.type === "boolean") return yesNo(said);
  if (schema.type === "integer" || schema.type === "number") return number(schema, said);
  return schema.type === "string" ? text(schema, said) : json(said);
}

function resolved(schema, defs) {
  const name = typeof schema?.$ref === "string" ? schema.$ref.replace("#/$defs/", "") : null;
  return name === null ? schema : defs?.[name];
}

function withoutNull(schema) {
  const members = schema.anyOf ?? [];
  const others = members.filter((one) => one.type !== "null");
  return others.length === 1 && others.length < members.length ? others[0] : schema;
}

function text(schema, said) {
  const pattern = schema.pattern ?? "";
  if (schema.format === "date") return picked("date", said, "a date");
  if (pattern.startsWith("^([01]\\d|2[0-3])")) return picked("time", said, "a time of day");
  if (pattern.startsWith("^\\d{4}-\\d{2}-\\d{2}T")) return moment(said);
  const control = el("textarea", { rows: said.small ? 1 : 3, spellcheck: "false" });
  return labelled(control, said, () => JSON.stringify(control.value), (value) => {
    control.value = typeof value === "string" ? value : write(value);
  });
}

function picked(type, said, what) {
  const control = el("input", { type, step: type === "time" ? "1" : null });
  const read = () => {
    if (!control.value) throw new Error(`choose ${what}`);
    return JSON.stringify(control.value);
  };
  return labelled(control, said, read, (value) => { control.value = String(value); });
}

function moment(said) {
  // a picker knows no offset from UTC, and a type may ask for one
  const control = el("input", { type: "text", placeholder: "2026-01-31T10:30:00", autocomplete: "off", class: "number" });
  const hint = [said.hint, "ends with Z or +01:00 where it has an offset"].filter(Boolean).join("; ");
  return labelled(control, { ...said, hint }, () => JSON.stringify(control.value.trim()), (value) => {
    control.value = String(value);
  });
}

function number(schema, said) {
  const whole = schema.type === "integer";
  const control = el("input", { type: "text", inputmode: whole ? "numeric" : "decimal", autocomplete: "off", class: "number" });
  const read = () => {
    const typed = control.value.trim();
    if (!NUMBER.test(typed)) throw new Error(whole ? "write a whole number, like 42" : "write a number, like 4.2");
    return typed;
  };
  return labelled(control, said, read, (value) => { control.value = write(value); });
}

function yesNo(said) {
  const control = el("input", { type: "checkbox" });
  const field = labelled(control, said, () => String(control.checked), (value) => { control.checked = value === true; });
  field.head.prepend(control);
  field.element.classList.add("yes-no");
  return field;
}

function choice(values, said) {
  const options = values.map((value) => el("option", { value: write(value) }, typeof value === "string" ? value : write(value)));
  const control = el("select", {}, ...options);
  return labelled(control, said, () => control.value, (value) => { control.value = write(value); });
}

function json(said) {
  const control = el("textarea", { rows: 4, spellcheck: "false", class: "json" });
  const hint = [said.hint, "as JSON"].filter(Boolean).join("; ");
  const read = () => {
    try {
      parse(control.value);
    } catch (error) {
      throw new Error(`this is no JSON: ${error.message}`);
    }
    return control.value;
  };
  return labelled(control, { ...said, hint }, read, (value) => { control.value = write(value); });
}

function nullable(field) {
  const made = unless(field, "null", "null", false);
  return { ...made, fill: (value) => (value === null ? made.leave() : made.fill(value)) };
}
