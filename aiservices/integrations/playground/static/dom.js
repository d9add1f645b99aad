// Makes elements. All text goes in as text: nothing that comes from elsewhere is ever read as markup.

/** An element with attributes and children, which are elements or texts. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** The element of an id. */
export function the(id) {
  return document.getElementById(id);
}

let made = 0;

/** An id that nothing else has. */
export function fresh() {
  made += 1;
  return `f${made}`;
}

/** A block of code with a button that copies it. */
export function code(text, caption) {
  const copy = el("button", { type: "button", class: "quiet copy", "aria-label": `Copy: ${caption}` }, "Copy");
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(text);
    copy.textContent = navigator.clipboard ? "Copied" : "Not permitted here";
  });
  const block = el("pre", { tabindex: "0", role: "region", "aria-label": caption }, el("code", {}, text));
  return el("section", { class: "code" }, el("div", { class: "row" }, el("h3", {}, caption), copy), block);
}
