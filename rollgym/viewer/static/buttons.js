// Buttons, which all do one thing when they are pressed.

import { h } from "./dom.js";

export function button(words, run, props = {}) {
  return h("button", { type: "button", ...props, on: { click: run } }, words);
}

// One that is not to be noticed before it is wanted.
export function quietButton(words, run, props = {}) {
  return button(words, run, { class: "quiet", ...props });
}
