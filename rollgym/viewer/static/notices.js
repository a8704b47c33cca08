// What a view shows while it waits, when something went wrong, and when there is nothing.

import { fill, h } from "./dom.js";
import { isConnected, onSource } from "./state.js";

// Puts the message in place of the container's content, with a button to try again.
export function failureNotice(container, error, retry) {
  fill(container, failure(error, retry));
}

// The message alone. Where no answer came it is tried again as soon as the server is back.
export function failure(error, retry) {
  const node = h("div", { class: "notice problem", role: "alert" },
    h("p", { text: error.message }),
    h("button", { on: { click: retry } }, "Try again"));
  if (error.status !== 0) return node;
  const off = onSource(() => {
    if (!isConnected()) return;
    off();
    if (node.isConnected) retry();
  });
  return node;
}

export function empty(title, ...words) {
  return h("div", { class: "notice empty" },
    h("p", { class: "empty-title", text: title }),
    words.length ? h("p", { class: "muted" }, ...words) : null);
}

// Grey stand-ins of the given heights (in rem) for what is being loaded.
export function skeleton(...heights) {
  return h("div", { class: "skeletons", "aria-hidden": "true" },
    heights.map((height) => h("div", { class: "skeleton", style: { height: `${height}rem` } })));
}
