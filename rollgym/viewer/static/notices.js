// What a view shows while it waits, when something went wrong, and when there is nothing.

import { fill, h } from "./dom.js";
import { link } from "./router.js";
import { isConnected, onSource, sourceOf } from "./state.js";

const NOT_FOUND = 404;
const BELOW = /^(\/s\/[^/]+\/(rollouts|tasks))\/./; // the addresses of one rollout, or of one task

// Puts the message in place of the container's content, with a button to try again.
export function failureNotice(container, error, retry) {
  fill(container, failure(error, retry));
}

// The message alone. Where no answer came it is tried again as soon as the server is back.
export function failure(error, retry) {
  const node = h("div", { class: "notice problem", role: "alert" },
    h("p", { text: error.message }),
    h("button", { on: { click: retry } }, "Try again"),
    error.status === NOT_FOUND ? wayOn() : null);
  if (error.status !== 0) return node;
  const off = onSource(() => {
    if (!isConnected()) return;
    off();
    if (node.isConnected) retry();
  });
  return node;
}

// From an address that leads to nothing.
function wayOn() {
  const [, path, name] = BELOW.exec(location.pathname) ?? [];
  return path ? link(path, `Show all ${name}`) : link("/", "Show all runs");
}

export function empty(title, ...words) {
  return h("div", { class: "notice empty" },
    h("p", { class: "empty-title", text: title }),
    words.length ? h("p", { class: "muted" }, ...words) : null);
}

// The same where nothing is filtered: a run may have nothing because it was not read yet, or cannot be.
export function nothingYet(source, title, ...words) {
  const { ready, problem } = sourceOf(source)?.state ?? {};
  if (problem) return h("div", { class: "notice problem", role: "alert" }, h("p", { text: problem }));
  return ready ? empty(title, ...words) : empty("Reading the file…");
}

// Grey stand-ins of the given heights (in rem) for what is being loaded.
export function skeleton(...heights) {
  return h("div", { class: "skeletons", "aria-hidden": "true" },
    heights.map((height) => h("div", { class: "skeleton", style: { height: `${height}rem` } })));
}
