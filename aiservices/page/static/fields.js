// Creates form fields from JSON Schemas. A field returns its value as JSON text, so that no digit of a number is lost.

import { labelledField, withCheckbox } from "./controls.js";
import { el } from "./dom.js";
import { group, list, media } from "./groups.js";
import { NUMBER, parse, write } from "./json.js";

const MAX_DEPTH = 4; // deeper values are entered as JSON
const MEDIA = ["ImageJson", "AudioJson", "FileJson"];

/**
 * Create the field of a schema. It has `element`, `text()` (throws InvalidFieldsError), `fill(value)`, `focus()`,
 * `showError(message)`, `child(step)` (the field of a property or an item), `enable(enabled)` and `rename(label)`.
 * `options` are the `label`, the `type` shown next to it, a `hint`, the `defs` of the schema, `small` for a small field,
 * and `mayBeLeftOut` for an optional field, which is left out instead of being null.
 */
export function fieldOf(schema, options, depth = 0) {
  const wholeSchema = resolved(schema, options.defs);
  const nonNull = wholeSchema && withoutNull(wholeSchema);
  const resolvedSchema = nonNull && resolved(nonNull, options.defs);
  const fieldOptions = { ...options, hint: options.hint ?? schema.description ?? "" };
  const field = fieldOfKind(resolvedSchema, fieldOptions, depth);
  return nonNull === wholeSchema || options.mayBeLeftOut ? field : nullable(field);
}

function fieldOfKind(schema, options, depth) {
  if (!schema || depth > MAX_DEPTH) return json(options);
  const values = schema.enum ?? ("const" in schema ? [schema.const] : null);
  if (values) return choice(values, options);
  if (MEDIA.includes(schema.title) && schema.properties?.data) return media(schema.title, options);
  if (schema.type === "object" && schema.properties) {
    return group(schema, options, (part, partOptions) => fieldOf(part, { ...partOptions, defs: options.defs }, depth + 1));
  }
  if (schema.type === "array" && schema.items && !schema.prefixItems) {
    return list(schema, options, (part, partOptions) => fieldOf(part, { ...partOptions, defs: options.defs }, depth + 1));
  }
  if (schema.type === "boolean") return yesNo(options);
  if (schema.type === "integer" || schema.type === "number") return number(schema, options);
  return schema.type === "string" ? text(schema, options) : json(options);
}

function resolved(schema, defs) {
  const name = typeof schema?.$ref === "string" ? schema.$ref.replace("#/$defs/", "") : null;
  return name === null ? schema : defs?.[name];
}

function withoutNull(schema) {
  const members = schema.anyOf ?? [];
  const others = members.filter((member) => member.type !== "null");
  return others.length === 1 && others.length < members.length ? others[0] : schema;
}

function text(schema, options) {
  const pattern = schema.pattern ?? "";
  if (schema.format === "date") return dateOrTime("date", options, "a date");
  if (pattern.startsWith("^([01]\\d|2[0-3])")) return dateOrTime("time", options, "a time of day");
  if (pattern.startsWith("^\\d{4}-\\d{2}-\\d{2}T")) return dateTime(options);
  const control = el("textarea", { rows: options.small ? 1 : 3, spellcheck: "false" });
  return labelledField(control, options, () => JSON.stringify(control.value), (value) => {
    control.value = typeof value === "string" ? value : write(value);
  });
}

function dateOrTime(type, options, what) {
  const control = el("input", { type, step: type === "time" ? "1" : null });
  const read = () => {
    if (!control.value) throw new Error(`choose ${what}`);
    return JSON.stringify(control.value);
  };
  return labelledField(control, options, read, (value) => { control.value = String(value); });
}

function dateTime(options) {
  // not a date-time picker: it has no offset from UTC, which a type may require
  const control = el("input", { type: "text", placeholder: "2026-01-31T10:30:00", autocomplete: "off", class: "number" });
  const hint = [options.hint, "with Z or +01:00 at the end if it has an offset"].filter(Boolean).join("; ");
  return labelledField(control, { ...options, hint }, () => JSON.stringify(control.value.trim()), (value) => {
    control.value = String(value);
  });
}

function number(schema, options) {
  const isInteger = schema.type === "integer";
  const control = el("input", { type: "text", inputmode: isInteger ? "numeric" : "decimal", autocomplete: "off", class: "number" });
  const read = () => {
    const typed = control.value.trim();
    if (!NUMBER.test(typed)) throw new Error(isInteger ? "write a whole number, like 42" : "write a number, like 4.2");
    return typed;
  };
  return labelledField(control, options, read, (value) => { control.value = write(value); });
}

function yesNo(options) {
  const control = el("input", { type: "checkbox" });
  const field = labelledField(control, options, () => String(control.checked), (value) => { control.checked = value === true; });
  field.head.prepend(control);
  field.element.classList.add("yes-no");
  return field;
}

function choice(values, options) {
  const optionElements = values.map((value) => el("option", { value: write(value) }, typeof value === "string" ? value : write(value)));
  const control = el("select", {}, ...optionElements);
  return labelledField(control, options, () => control.value, (value) => { control.value = write(value); });
}

function json(options) {
  const control = el("textarea", { rows: 4, spellcheck: "false", class: "json" });
  const hint = [options.hint, "as JSON"].filter(Boolean).join("; ");
  const read = () => {
    try {
      parse(control.value);
    } catch (error) {
      throw new Error(`this is not JSON: ${error.message}`);
    }
    return control.value;
  };
  return labelledField(control, { ...options, hint }, read, (value) => { control.value = write(value); });
}

function nullable(field) {
  const withNull = withCheckbox(field, "null", "null", false);
  return { ...withNull, fill: (value) => (value === null ? withNull.omit() : withNull.fill(value)) };
}
