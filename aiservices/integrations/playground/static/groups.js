// Fields that hold others: records, lists, and media that are chosen as a file or by their address.

import { Unfit, framed, gathered, labelled, record, unless } from "./controls.js";
import { el } from "./dom.js";

/** The field of a record; `make` makes those of its members. */
export function group(schema, said, make) {
  const needed = new Set(schema.required ?? []);
  const members = new Map(Object.entries(schema.properties).map(([name, part]) => {
    const optional = !needed.has(name);
    const member = make(part, { label: name, small: true, hint: part.description, mayBeLeftOut: optional });
    return [name, optional ? unless(member, "leave out", null, true) : member];
  }));
  const frame = framed(said, [...members.values()].map((member) => member.element));
  return {
    ...frame,
    ...record(members),
    enable: (yes) => members.forEach((member) => member.enable(yes)),
    focus: () => members.values().next().value?.focus(),
  };
}

/** The field of a list; `make` makes those of its items. */
export function list(schema, said, make) {
  const items = [];
  const rows = el("div", { class: "rows" });
  const more = el("button", { type: "button", class: "quiet" }, `Add to ${said.label}`);
  const frame = framed(said, [rows, more]);
  const number = () => {
    items.forEach((item, index) => item.rename(`${said.label} ${index + 1}`));
    rows.querySelectorAll(":scope > .item > .remove").forEach((button, index) => {
      button.setAttribute("aria-label", `Remove ${said.label} ${index + 1}`);
    });
  };
  const add = () => {
    const item = make(schema.items, { label: said.label, small: true });
    const remove = el("button", { type: "button", class: "quiet remove" }, "Remove");
    const row = el("div", { class: "item" }, item.element, remove);
    remove.addEventListener("click", () => {
      items.splice(items.indexOf(item), 1);
      row.remove();
      number();
      more.focus();
      more.dispatchEvent(new Event("input", { bubbles: true }));
    });
    items.push(item);
    rows.append(row);
    number();
    return item;
  };
  more.addEventListener("click", () => {
    add().focus();
    more.dispatchEvent(new Event("input", { bubbles: true }));
  });
  return {
    ...frame,
    text: () => `[${gathered(items.map((item) => () => item.text())).join(", ")}]`,
    fill: (value) => {
      items.length = 0;
      rows.replaceChildren();
      for (const one of value) add().fill(one);
    },
    enable: (yes) => {
      more.disabled = !yes;
      items.forEach((item) => item.enable(yes));
      rows.querySelectorAll(".remove").forEach((button) => { button.disabled = !yes; });
    },
    focus: () => (items[0] ?? more).focus(),
    below: (step) => items[step] ?? null,
  };
}

/** The field of an image, sound or file. */
export function media(title, said) {
  const kinds = { ImageJson: "image/*", AudioJson: "audio/*", FileJson: null };
  const file = el("input", { type: "file", accept: kinds[title] });
  const address = el("input", { type: "url", placeholder: "https://…", autocomplete: "off" });
  const chosen = el("p", { class: "faint", hidden: true });
  let kept = null;
  const keep = (one) => {
    kept = one;
    chosen.hidden = !one;
    chosen.textContent = one ? `Chosen: ${one.name ?? "a file"}` : "";
  };
  file.addEventListener("change", async () => {
    const [one] = file.files;
    keep(one ? { data: await base64(one), ...(one.type ? { media_type: one.type } : {}), name: one.name } : null);
    file.dispatchEvent(new Event("input", { bubbles: true }));
  });
  const filled = labelled(file, { label: "File", small: true }, () => "", () => {});
  const linked = labelled(address, { label: "or its address", small: true }, () => "", () => {});
  const frame = framed({ ...said, hint: "" }, [filled.element, chosen, linked.element]);
  const field = {
    ...frame,
    text: () => {
      if (address.value.trim()) return JSON.stringify({ url: address.value.trim() });
      if (!kept) throw new Unfit([{ field, message: "choose a file, or write its address" }]);
      return JSON.stringify(kept);
    },
    fill: (value) => {
      address.value = value.url ?? "";
      file.value = "";
      keep(value.data ? value : null);
    },
    enable: (yes) => { file.disabled = !yes; address.disabled = !yes; },
    focus: () => file.focus(),
    below: () => null,
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
