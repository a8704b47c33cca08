// What is shown where the server did not understand a filter, with a way to take it back.

import { h } from "./dom.js";
import { changed, notUnderstood } from "./filter_params.js";

const NOT_UNDERSTOOD = 400;

// A message with a button that calls `go(params)` without the filters that mean nothing; without any
// where it is not known which those are. Null for any other error.
export function refusal(error, params, go) {
  if (error.status !== NOT_UNDERSTOOD) return null;
  const names = notUnderstood(params);
  const clear = () => go(names.length ? without(params, names) : {});
  return h("div", { class: "notice problem", role: "alert" },
    h("p", { class: "empty-title", text: names.length > 1 ? "Some filters are not understood" : "A filter is not understood" }),
    h("p", { text: error.message }),
    h("button", { on: { click: clear } }, wordsFor(names)));
}

function without(params, names) {
  return changed(params, Object.fromEntries(names.map((name) => [name, null])));
}

function wordsFor(names) {
  if (!names.length) return "Clear the filters";
  return names.length > 1 ? "Remove these filters" : "Remove this filter";
}
