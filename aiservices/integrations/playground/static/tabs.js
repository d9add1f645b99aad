// Tabs: one panel is shown; arrows, Home and End go from tab to tab.

/** Make the tabs of a list work; `chosen` is told of the id of each tab that is chosen. */
export function tabs(list, chosen) {
  const all = [...list.querySelectorAll('[role="tab"]')];
  const choose = (tab) => {
    for (const one of all) {
      const selected = one === tab;
      one.setAttribute("aria-selected", String(selected));
      one.tabIndex = selected ? 0 : -1;
      document.getElementById(one.getAttribute("aria-controls")).hidden = !selected;
    }
    chosen(tab.id);
  };
  all.forEach((tab, index) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: index + 1, ArrowLeft: index - 1 + all.length, Home: 0, End: all.length - 1 };
      if (!(event.key in steps)) return;
      event.preventDefault();
      const next = all[steps[event.key] % all.length];
      choose(next);
      next.focus();
    });
  });
  return (id) => choose(all.find((tab) => tab.id === id));
}
