// Buttons: plain ones, quiet ones, and one that copies a text and confirms it for a moment.

import { h } from "./dom.js";

export function button(words, run, props = {}) {
  return h("button", { type: "button", ...props, on: { click: run } }, words);
}

// A button without a border.
export function quietButton(words, run, props = {}) {
  return button(words, run, { class: "quiet", ...props });
}

const SHOWN_MS = 1_500;

// A button that copies `content`: a string, or a function that returns a string or a promise of one.
// If copying fails, its tooltip says why.
export function copyButton(content, { words = "Copy", title = "Copy to the clipboard" } = {}) {
  let timer = 0;
  const label = h("span", { class: "copy-label", "aria-live": "polite", data: { words } }, words);
  const say = (text) => {
    label.textContent = text;
    clearTimeout(timer);
    timer = setTimeout(() => (label.textContent = words), SHOWN_MS);
  };
  const copy = async () => {
    try {
      await write(await (typeof content === "function" ? content() : content));
      say("Copied");
    } catch (error) {
      button.title = String(error.message ?? error);
      say("Not copied");
    }
  };
  const button = h("button", { class: "quiet copy", type: "button", title, on: { click: copy } }, label);
  return button;
}

async function write(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  // Pages over plain HTTP from another machine have no clipboard object.
  const area = h("textarea", { class: "off-screen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("The browser does not allow this page to copy.");
}
