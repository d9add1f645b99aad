// What all fields are made of: a label, a hint, a place for complaints; and how several are read at once.

import { el, fresh } from "./dom.js";

/** Values that cannot be sent; `misfits` are their fields, each with a message. */
export class Unfit extends Error {
  constructor(misfits) {
    super("not all arguments can be sent");
    this.misfits = misfits;
  }
}

/** What each step gives. Throws Unfit with all that do not fit, not only the first. */
export function gathered(steps) {
  const [found, misfits] = [[], []];
  for (const step of steps) {
    try {
      found.push(step());
    } catch (error) {
      if (!(error instanceof Unfit)) throw error;
      misfits.push(...error.misfits);
    }
  }
  if (misfits.length) throw new Unfit(misfits);
  return found;
}

/** How a record of fields, by their names, is read and filled; a field whose text is null is left out. */
export function record(fields) {
  return {
    text: () => {
      const written = gathered([...fields].map(([name, field]) => () => [name, field.text()]));
      const given = written.filter(([, text]) => text !== null);
      return `{${given.map(([name, text]) => `${JSON.stringify(name)}: ${text}`).join(", ")}}`;
    },
    fill: (value) => {
      for (const [name, field] of fields) {
        if (Object.hasOwn(value, name)) field.fill(value[name]);
        else field.leave?.();
      }
    },
    below: (step) => fields.get(step) ?? null,
  };
}

/** A labelled control: what all fields that are no group are. */
export function labelled(control, said, read, put) {
  const [id, hint, wrong] = [fresh(), fresh(), fresh()];
  const complaint = el("p", { class: "error", id: wrong, hidden: true });
  control.id = id;
  control.setAttribute("aria-describedby", `${hint} ${wrong}`);
  const label = el("label", { for: id }, said.label);
  const head = el("div", { class: "head" }, label, el("span", { class: "type" }, said.type ?? ""));
  const about = el("p", { class: "faint hint", id: hint, hidden: !said.hint }, said.hint ?? "");
  const element = el("div", { class: "field" }, head, about, control, complaint);
  const field = {
    element,
    head,
    name: said.label,
    focus: () => control.focus(),
    enable: (yes) => { control.disabled = !yes; },
    below: () => null,
    rename: (name) => { label.textContent = name; },
    fill: (value) => put(value),
    complain: (message) => {
      complaint.textContent = message;
      complaint.hidden = !message;
      if (message) control.setAttribute("aria-invalid", "true");
      else control.removeAttribute("aria-invalid");
    },
  };
  field.text = () => {
    try {
      return read();
    } catch (error) {
      throw new Unfit([{ field, message: error.message }]);
    }
  };
  control.addEventListener("input", () => field.complain(""));
  return field;
}

/** A frame around fields. */
export function framed(said, children) {
  const [hint, wrong] = [fresh(), fresh()];
  const complaint = el("p", { class: "error", id: wrong, hidden: true });
  const about = el("p", { class: "faint hint", id: hint, hidden: !said.hint }, said.hint ?? "");
  const head = el("div", { class: "head" }, el("span", { class: "type" }, said.type ?? ""));
  const legend = el("legend", {}, said.label);
  const element = el("fieldset", { class: "group", "aria-describedby": `${hint} ${wrong}` },
    legend, head, about, ...children, complaint);
  element.addEventListener("input", () => { complaint.hidden = true; });
  const complain = (message) => {
    complaint.textContent = message;
    complaint.hidden = !message;
  };
  return { element, head, name: said.label, complain, rename: (name) => { legend.textContent = name; } };
}

/** A field with a box beside it; while that is ticked, `text()` gives `instead`. */
export function unless(field, caption, instead, ticked) {
  const box = el("input", { type: "checkbox", "aria-label": `${caption}: ${field.name}` });
  box.checked = ticked;
  const apply = () => {
    field.enable(!box.checked);
    field.element.classList.toggle("left-out", box.checked);
    if (box.checked) field.complain("");
  };
  box.addEventListener("change", () => {
    apply();
    if (!box.checked) field.focus();
  });
  field.head.append(el("label", { class: "instead" }, box, caption));
  apply();
  const untick = () => { box.checked = false; apply(); };
  return {
    ...field,
    text: () => (box.checked ? instead : field.text()),
    fill: (value) => { untick(); field.fill(value); },
    leave: () => { box.checked = true; apply(); },
    enable: (yes) => { box.disabled = !yes; field.enable(yes && !box.checked); },
    focus: () => (box.checked ? box.focus() : field.focus()),
  };
}
