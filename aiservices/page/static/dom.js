// Creates elements. Text is always inserted as text nodes, so that text of models is never parsed as HTML.

/** Create an element. Attributes that start with "on" are event listeners; children are elements or strings. */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Return the element with an id. */
export function byId(id) {
  return document.getElementById(id);
}

let lastId = 0;

/** Return a new unique id. */
export function newId() {
  lastId += 1;
  return `f${lastId}`;
}

/** Create a block of code with a button that copies it. */
export function code(text, caption) {
  const copy = el("button", { type: "button", class: "quiet copy", "aria-label": `Copy: ${caption}` }, "Copy");
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(text);
    copy.textContent = navigator.clipboard ? "Copied" : "Not allowed here";
  });
  const block = el("pre", { tabindex: "0", role: "region", "aria-label": caption }, el("code", {}, text));
  return el("section", { class: "code" }, el("div", { class: "row" }, el("h3", {}, caption), copy), block);
}
