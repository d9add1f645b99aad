// The lists beside the form: the methods that there are, and the calls that were made.

import { el, the } from "./dom.js";
import { forget, kept } from "./history.js";

const MANY = 8; // from so many methods on there is a search

/** List the methods of services; `address` gives the link to one. */
export function listMethods(services, address) {
  const links = [];
  const groups = services.map((service) => {
    const items = service.methods.map((method) => {
      const link = el("a", { href: address(service, method) }, method.name);
      links.push({ link, item: el("li", {}, link), said: `${method.name} ${method.doc}`.toLowerCase() });
      return links.at(-1).item;
    });
    const heading = services.length > 1 ? el("h2", {}, titleOf(service)) : null;
    return el("section", {}, heading, el("ul", { class: "methods" }, ...items));
  });
  the("list").replaceChildren(...groups);
  the("sought").hidden = links.length < MANY;
  the("search").addEventListener("input", () => {
    const sought = the("search").value.trim().toLowerCase();
    for (const { item, said } of links) item.hidden = !said.includes(sought);
  });
  return (chosen) => {
    for (const { link } of links) {
      if (link.getAttribute("href") === chosen) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  };
}

/** The name of a service, with its prefix where it has one. */
export function titleOf(service) {
  return service.prefix ? `${service.name} ${service.prefix}` : service.name;
}

/** List the calls that were made of methods which `known` finds; `again` is given the one that is chosen. */
export function listCalls(known, again) {
  const calls = kept().filter(known);
  the("no-history").hidden = calls.length > 0;
  the("forget").hidden = calls.length === 0;
  the("calls").replaceChildren(...calls.map((call) => el("li", {}, entry(call, again))));
  the("forget").onclick = () => {
    forget();
    listCalls(known, again);
    the("history").querySelector("summary").focus();
  };
}

function entry(call, again) {
  const when = new Date(call.when).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const button = el("button", { type: "button" },
    el("span", { class: "name" }, call.method),
    el("span", { class: "faint arguments" }, call.body),
    el("span", { class: call.outcome.problem ? "bad" : "faint" }, `${call.summary}, ${when}`),
  );
  button.addEventListener("click", () => again(call));
  return button;
}
