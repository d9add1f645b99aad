// Fields that contain other fields: objects, lists, and media as a file or a URL.

import { InvalidFieldsError, fieldset, collect, labelledField, record, withCheckbox } from "./controls.js";
import { el } from "./dom.js";

/** Create the field of an object. `newField` creates the fields of its properties. */
export function group(schema, options, newField) {
  const requiredNames = new Set(schema.required ?? []);
  const members = new Map(Object.entries(schema.properties).map(([name, part]) => {
    const optional = !requiredNames.has(name);
    const member = newField(part, { label: name, small: true, hint: part.description, mayBeLeftOut: optional });
    return [name, optional ? withCheckbox(member, "leave out", null, true) : member];
  }));
  const frame = fieldset(options, [...members.values()].map((member) => member.element));
  return {
    ...frame,
    ...record(members),
    enable: (enabled) => members.forEach((member) => member.enable(enabled)),
    focus: () => members.values().next().value?.focus(),
  };
}

/** Create the field of a list. `newField` creates the fields of its items. */
export function list(schema, options, newField) {
  const items = [];
  const rows = el("div", { class: "rows" });
  const addButton = el("button", { type: "button", class: "quiet" }, `Add to ${options.label}`);
  const frame = fieldset(options, [rows, addButton]);
  const renumber = () => {
    items.forEach((item, index) => item.rename(`${options.label} ${index + 1}`));
    rows.querySelectorAll(":scope > .item > .remove").forEach((button, index) => {
      button.setAttribute("aria-label", `Remove ${options.label} ${index + 1}`);
    });
  };
  const add = () => {
    const item = newField(schema.items, { label: options.label, small: true });
    const remove = el("button", { type: "button", class: "quiet remove" }, "Remove");
    const row = el("div", { class: "item" }, item.element, remove);
    remove.addEventListener("click", () => {
      items.splice(items.indexOf(item), 1);
      row.remove();
      renumber();
      addButton.focus();
      addButton.dispatchEvent(new Event("input", { bubbles: true }));
    });
    items.push(item);
    rows.append(row);
    renumber();
    return item;
  };
  addButton.addEventListener("click", () => {
    add().focus();
    addButton.dispatchEvent(new Event("input", { bubbles: true }));
  });
  return {
    ...frame,
    text: () => `[${collect(items.map((item) => () => item.text())).join(", ")}]`,
    fill: (value) => {
      items.length = 0;
      rows.replaceChildren();
      for (const item of value) add().fill(item);
    },
    enable: (enabled) => {
      addButton.disabled = !enabled;
      items.forEach((item) => item.enable(enabled));
      rows.querySelectorAll(".remove").forEach((button) => { button.disabled = !enabled; });
    },
    focus: () => (items[0] ?? addButton).focus(),
    child: (step) => items[step] ?? null,
  };
}

/** Create the field of an image, sound or file. */
export function media(title, options) {
  const kinds = { ImageJson: "image/*", AudioJson: "audio/*", FileJson: null };
  const fileInput = el("input", { type: "file", accept: kinds[title] });
  const urlInput = el("input", { type: "url", placeholder: "https://…", autocomplete: "off" });
  const fileLine = el("p", { class: "faint", hidden: true });
  let selectedFile = null;
  const selectFile = (file) => {
    selectedFile = file;
    fileLine.hidden = !file;
    fileLine.textContent = file ? `Chosen: ${file.name ?? "a file"}` : "";
  };
  fileInput.addEventListener("change", async () => {
    const [file] = fileInput.files;
    selectFile(file ? { data: await base64(file), ...(file.type ? { media_type: file.type } : {}), name: file.name } : null);
    fileInput.dispatchEvent(new Event("input", { bubbles: true }));
  });
  const fileField = labelledField(fileInput, { label: "File", small: true }, () => "", () => {});
  const urlField = labelledField(urlInput, { label: "or its address", small: true }, () => "", () => {});
  const frame = fieldset({ ...options, hint: "" }, [fileField.element, fileLine, urlField.element]);
  const field = {
    ...frame,
    text: () => {
      if (urlInput.value.trim()) return JSON.stringify({ url: urlInput.value.trim() });
      if (!selectedFile) throw new InvalidFieldsError([{ field, message: "choose a file, or write its address" }]);
      return JSON.stringify(selectedFile);
    },
    fill: (value) => {
      urlInput.value = value.url ?? "";
      fileInput.value = "";
      selectFile(value.data ? value : null);
    },
    enable: (enabled) => { fileInput.disabled = !enabled; urlInput.disabled = !enabled; },
    focus: () => fileInput.focus(),
    child: () => null,
  };
  return field;
}

async function base64(file) {
  const url = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(file);
  });
  return url.slice(url.indexOf(",") + 1);
}
