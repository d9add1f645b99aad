// The parts of form fields: label, hint and error message; and reading several fields at once.

import { el, newId } from "./dom.js";

/** Some fields have invalid values. `fieldErrors` is a list of {field, message}. */
export class InvalidFieldsError extends Error {
  constructor(fieldErrors) {
    super("not all arguments can be sent");
    this.fieldErrors = fieldErrors;
  }
}

/** Return the result of each step. Throws one InvalidFieldsError with the errors of all steps. */
export function collect(steps) {
  const [results, fieldErrors] = [[], []];
  for (const step of steps) {
    try {
      results.push(step());
    } catch (error) {
      if (!(error instanceof InvalidFieldsError)) throw error;
      fieldErrors.push(...error.fieldErrors);
    }
  }
  if (fieldErrors.length) throw new InvalidFieldsError(fieldErrors);
  return results;
}

/** Combine fields, by name, to a field for an object. A field whose text is null is left out. */
export function record(fields) {
  return {
    text: () => {
      const texts = collect([...fields].map(([name, field]) => () => [name, field.text()]));
      const present = texts.filter(([, text]) => text !== null);
      return `{${present.map(([name, text]) => `${JSON.stringify(name)}: ${text}`).join(", ")}}`;
    },
    fill: (value) => {
      for (const [name, field] of fields) {
        if (Object.hasOwn(value, name)) field.fill(value[name]);
        else field.omit?.();
      }
    },
    child: (step) => fields.get(step) ?? null,
  };
}

/** Create a field with a single control. `read` returns its JSON text or throws; `setValue` sets a value. */
export function labelledField(control, options, read, setValue) {
  const [id, hintId, errorId] = [newId(), newId(), newId()];
  const errorLine = el("p", { class: "error", id: errorId, hidden: true });
  control.id = id;
  control.setAttribute("aria-describedby", `${hintId} ${errorId}`);
  const label = el("label", { for: id }, options.label);
  const head = el("div", { class: "head" }, label, el("span", { class: "type" }, options.type ?? ""));
  const hintLine = el("p", { class: "faint hint", id: hintId, hidden: !options.hint }, options.hint ?? "");
  const element = el("div", { class: "field" }, head, hintLine, control, errorLine);
  const field = {
    element,
    head,
    name: options.label,
    focus: () => control.focus(),
    enable: (enabled) => { control.disabled = !enabled; },
    child: () => null,
    rename: (name) => { label.textContent = name; },
    fill: (value) => setValue(value),
    showError: (message) => {
      errorLine.textContent = message;
      errorLine.hidden = !message;
      if (message) control.setAttribute("aria-invalid", "true");
      else control.removeAttribute("aria-invalid");
    },
  };
  field.text = () => {
    try {
      return read();
    } catch (error) {
      throw new InvalidFieldsError([{ field, message: error.message }]);
    }
  };
  control.addEventListener("input", () => field.showError(""));
  return field;
}

/** Create a fieldset around fields. */
export function fieldset(options, children) {
  const [hintId, errorId] = [newId(), newId()];
  const errorLine = el("p", { class: "error", id: errorId, hidden: true });
  const hintLine = el("p", { class: "faint hint", id: hintId, hidden: !options.hint }, options.hint ?? "");
  const head = el("div", { class: "head" }, el("span", { class: "type" }, options.type ?? ""));
  const legend = el("legend", {}, options.label);
  const element = el("fieldset", { class: "group", "aria-describedby": `${hintId} ${errorId}` },
    legend, head, hintLine, ...children, errorLine);
  element.addEventListener("input", () => { errorLine.hidden = true; });
  const showError = (message) => {
    errorLine.textContent = message;
    errorLine.hidden = !message;
  };
  return { element, head, name: options.label, showError, rename: (name) => { legend.textContent = name; } };
}

/** Add a checkbox to a field. While it is checked, `text()` returns `checkedText`. */
export function withCheckbox(field, caption, checkedText, initiallyChecked) {
  const box = el("input", { type: "checkbox", "aria-label": `${caption}: ${field.name}` });
  box.checked = initiallyChecked;
  const apply = () => {
    field.enable(!box.checked);
    field.element.classList.toggle("left-out", box.checked);
    if (box.checked) field.showError("");
  };
  box.addEventListener("change", () => {
    apply();
    if (!box.checked) field.focus();
  });
  field.head.append(el("label", { class: "checkbox-label" }, box, caption));
  apply();
  const uncheck = () => { box.checked = false; apply(); };
  return {
    ...field,
    text: () => (box.checked ? checkedText : field.text()),
    fill: (value) => { uncheck(); field.fill(value); },
    omit: () => { box.checked = true; apply(); },
    enable: (enabled) => { box.disabled = !enabled; field.enable(enabled && !box.checked); },
    focus: () => (box.checked ? box.focus() : field.focus()),
  };
}
