// A button that opens a panel under itself. It closes with Escape, with a click elsewhere, and when
// the focus leaves it.

import { fill, h } from "./dom.js";

let opened = null;

// `content()` creates the content of the panel each time it is opened. `filters` are the names of the
// parameters that highlight the button (see FilterBar).
export function menu({ label, filters = [], content, kind = "", description = null }) {
  const panel = h("div", { class: "menu-panel", hidden: true });
  const button = h("button", {
    class: `menu-button ${kind}`, type: "button", "aria-expanded": "false", "aria-haspopup": "true",
    "aria-label": description, data: { filters: filters.join(" ") },
  }, h("span", { text: label }), h("span", { class: "caret", "aria-hidden": "true" }));
  const node = h("div", { class: "menu" }, button, panel);
  const close = (focus) => {
    if (opened !== close) return;
    opened = null;
    panel.hidden = true;
    fill(panel);
    button.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside, true);
    window.removeEventListener("resize", away);
    if (focus) button.focus();
  };
  const away = () => close(false);
  const outside = (event) => !node.contains(event.target) && close(false);
  const open = () => {
    opened?.(false);
    opened = close;
    panel.append(content());
    panel.hidden = false;
    button.setAttribute("aria-expanded", "true");
    place(panel, button);
    panel.querySelector("input, button, select, a")?.focus({ preventScroll: true });
    document.addEventListener("pointerdown", outside, true);
    window.addEventListener("resize", away);
  };
  button.addEventListener("click", () => (panel.hidden ? open() : close(true)));
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || panel.hidden) return;
    event.stopPropagation();
    close(true);
  });
  node.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !node.contains(event.relatedTarget)) close(false);
  });
  return node;
}

// Under the button, inside the window. Fixed, so that no scrolling box cuts it.
function place(panel, button) {
  const box = button.getBoundingClientRect();
  const width = panel.offsetWidth;
  const left = Math.max(8, Math.min(box.left, innerWidth - width - 8));
  panel.style.setProperty("left", `${left}px`);
  panel.style.setProperty("top", `${box.bottom + 4}px`);
  panel.style.setProperty("max-height", `${Math.max(160, innerHeight - box.bottom - 16)}px`);
}
