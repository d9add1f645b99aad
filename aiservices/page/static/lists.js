// The lists in the sidebar: the methods of all services, and the history of calls.

import { el, byId } from "./dom.js";
import { clearCalls, savedCalls } from "./history.js";

const SEARCH_FROM = 8; // the number of methods from which on there is a search field

/** Show the list of methods. `address` returns the URL of one; returns a function that marks the selected one. */
export function listMethods(services, address) {
  const links = [];
  const groups = services.map((service) => {
    const items = service.methods.map((method) => {
      const link = el("a", { href: address(service, method) }, method.name);
      links.push({ link, item: el("li", {}, link), searchText: `${method.name} ${method.doc}`.toLowerCase() });
      return links.at(-1).item;
    });
    const heading = services.length > 1 ? el("h2", {}, titleOf(service)) : null;
    return el("section", {}, heading, el("ul", { class: "methods" }, ...items));
  });
  byId("list").replaceChildren(...groups);
  byId("search-box").hidden = links.length < SEARCH_FROM;
  byId("search").addEventListener("input", () => {
    const query = byId("search").value.trim().toLowerCase();
    for (const { item, searchText } of links) item.hidden = !searchText.includes(query);
  });
  return (selected) => {
    for (const { link } of links) {
      if (link.getAttribute("href") === selected) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  };
}

/** Return the name of a service, with its prefix if it has one. */
export function titleOf(service) {
  return service.prefix ? `${service.name} ${service.prefix}` : service.name;
}

/** Show the history of those calls for which `isKnown` is true. A click on a call passes it to `reopen`. */
export function listCalls(isKnown, reopen) {
  const calls = savedCalls().filter(isKnown);
  byId("no-history").hidden = calls.length > 0;
  byId("clear-history").hidden = calls.length === 0;
  byId("calls").replaceChildren(...calls.map((call) => el("li", {}, callEntry(call, reopen))));
  byId("clear-history").onclick = () => {
    clearCalls();
    listCalls(isKnown, reopen);
    byId("history").querySelector("summary").focus();
  };
}

function callEntry(call, reopen) {
  const when = new Date(call.when).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const button = el("button", { type: "button" },
    el("span", { class: "name" }, call.method),
    el("span", { class: "faint arguments" }, call.body),
    el("span", { class: call.outcome.problem && !call.waiting ? "bad" : "faint" }, `${call.summary}, ${when}`),
  );
  button.addEventListener("click", () => reopen(call));
  return button;
}
