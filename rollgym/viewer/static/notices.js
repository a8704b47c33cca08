// What a view shows while it loads, after an error, when it is empty, and at an unknown address.

import { fill, h } from "./dom.js";
import { changed, invalidNames } from "./filter_params.js";
import { link, navigate } from "./router.js";
import { isConnected, onSource, sourceOf } from "./state.js";

const NOT_FOUND = 404;
const BELOW = /^(\/s\/[^/]+\/(rollouts|tasks))\/./; // the addresses of one rollout, or of one task

// Replaces the container's content with the message and a button to try again.
export function failureNotice(container, error, retry) {
  fill(container, failure(error, retry));
}

// The message alone. If the server did not respond, it retries as soon as the server is back.
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

// A link from an unknown address to a page that exists.
function wayOn() {
  const [, path, name] = BELOW.exec(location.pathname) ?? [];
  return path ? link(path, `Show all ${name}`) : link("/", "Show all runs");
}

export function empty(title, ...words) {
  return h("div", { class: "notice empty" },
    h("p", { class: "empty-title", text: title }),
    words.length ? h("p", { class: "muted" }, ...words) : null);
}

// The notice of an empty run without filters: it may not have been read yet, or may be unreadable.
export function nothingYet(source, title, ...words) {
  const { ready, problem } = sourceOf(source)?.state ?? {};
  if (problem) return h("div", { class: "notice problem", role: "alert" }, h("p", { text: problem }));
  return ready ? empty(title, ...words) : empty("Reading the file…");
}

// Grey placeholders of the given heights (in rem) while content is loading.
export function skeleton(...heights) {
  return h("div", { class: "skeletons", "aria-hidden": "true" },
    heights.map((height) => h("div", { class: "skeleton", style: { height: `${height}rem` } })));
}

const BAD_REQUEST = 400;

// The message for a filter that the server rejected, with a button that calls `go(params)` without the
// invalid filters, or without any filter if they are unknown. Null for any other error.
export function refusal(error, params, go) {
  if (error.status !== BAD_REQUEST) return null;
  const names = invalidNames(params);
  const clear = () => go(names.length ? without(params, names) : {});
  return h("div", { class: "notice problem", role: "alert" },
    h("p", { class: "empty-title", text: names.length > 1 ? "Some filters are not valid" : "A filter is not valid" }),
    h("p", { text: error.message }),
    h("button", { on: { click: clear } }, wordsFor(names)));
}

function without(params, names) {
  return changed(params, Object.fromEntries(names.map((name) => [name, null])));
}

function wordsFor(names) {
  if (!names.length) return "Clear filters";
  return names.length > 1 ? "Remove these filters" : "Remove this filter";
}

export function missingView(container) {
  container.append(page("Page not found", "This address does not lead to a view."));
  return { destroy() {} };
}

// A view of a run. If the run does not exist yet, it is shown as soon as it does.
export function ofRun(view) {
  return (container, match, params) => (sourceOf(match.source)
    ? view(container, match, params) : missingRunView(container, match.source));
}

function missingRunView(container, source) {
  const words = `There is no run “${source}”. The viewer was started with other paths, or has not found the run yet.`;
  container.append(page("Run not found", words));
  const off = onSource(() => {
    if (sourceOf(source)) navigate(location.pathname + location.search, { replace: true });
  });
  return { destroy: off };
}

function page(title, words) {
  return h("div", { class: "page" },
    h("h1", { text: title }),
    h("p", { class: "muted" }, `${words} `, link("/", "Show all runs")));
}
