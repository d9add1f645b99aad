// Tabs: one panel is visible. The arrow keys, Home and End move from tab to tab (WAI-ARIA tabs pattern).

/** Connect the tabs of a tab list. Calls `onSelect` with the id of a selected tab; returns a function that selects one. */
export function connectTabs(list, onSelect) {
  const tabElements = [...list.querySelectorAll('[role="tab"]')];
  const select = (tab) => {
    for (const other of tabElements) {
      const selected = other === tab;
      other.setAttribute("aria-selected", String(selected));
      other.tabIndex = selected ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !selected;
    }
    onSelect(tab.id);
  };
  tabElements.forEach((tab, index) => {
    tab.addEventListener("click", () => select(tab));
    tab.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: index + 1, ArrowLeft: index - 1 + tabElements.length, Home: 0, End: tabElements.length - 1 };
      if (!(event.key in steps)) return;
      event.preventDefault();
      const next = tabElements[steps[event.key] % tabElements.length];
      select(next);
      next.focus();
    });
  });
  return (id) => select(tabElements.find((tab) => tab.id === id));
}
