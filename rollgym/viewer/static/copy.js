// A button that copies a text, and says for a moment that it did.

import { h } from "./dom.js";

const SHOWN_MS = 1_500;

// A button that copies what `content` is or, when asked, gives (a string, or a promise of one).
// Where nothing can be copied it says why in its tooltip.
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
  // Pages that came over plain HTTP from another machine have no clipboard object.
  const area = h("textarea", { class: "off-screen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("The browser does not let this page copy.");
}
