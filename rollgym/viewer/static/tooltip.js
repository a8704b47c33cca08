// Tooltips of elements with `data-tip`, beside the pointer or, with the keyboard, under the element. They
// repeat the accessible name of the element, and are hidden from screen readers.

import { h } from "./dom.js";

const GAP = 12;
let tip = null;

export function listenForTips() {
  tip = h("div", { class: "tip", "aria-hidden": "true", hidden: true });
  document.body.append(tip);
  document.addEventListener("pointermove", pointed, { passive: true });
  document.addEventListener("focusin", focused);
  document.addEventListener("focusout", hideTip);
  document.addEventListener("keydown", hideTip);
  document.addEventListener("scroll", hideTip, { capture: true, passive: true });
  document.addEventListener("click", hideTip);
  document.documentElement.addEventListener("pointerleave", hideTip);
}

// Shows a text at a point of the window; for drawings, which have no elements.
export function showTip(words, x, y) {
  tip.textContent = words;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.max(4, Math.min(x + GAP, innerWidth - width - 4));
  const above = y + GAP + height > innerHeight - 4;
  tip.style.setProperty("left", `${left}px`);
  tip.style.setProperty("top", `${Math.max(4, above ? y - GAP - height : y + GAP)}px`);
}

export function hideTip() {
  tip.hidden = true;
}

function pointed(event) {
  if (event.pointerType === "touch") return;
  const about = event.target.closest?.("[data-tip]");
  if (about) showTip(about.dataset.tip, event.clientX, event.clientY);
  else if (!event.target.closest?.("[data-own-tip]")) hideTip();
}

function focused(event) {
  const about = event.target.closest?.("[data-tip]");
  if (!about || !about.matches(":focus-visible")) return;
  const box = about.getBoundingClientRect();
  showTip(about.dataset.tip, box.left, box.bottom);
}
