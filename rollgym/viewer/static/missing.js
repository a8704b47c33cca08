// What is shown at an address that leads to nothing.

import { h } from "./dom.js";
import { link, navigate } from "./router.js";
import { onSource, sourceOf } from "./state.js";

export function missingView(container) {
  container.append(page("There is no such page", "The address leads to no view."));
  return { destroy() {} };
}

// A view of a run, shown only where there is that run; one that begins later is shown then.
export function ofRun(view) {
  return (container, match, params) => (sourceOf(match.source)
    ? view(container, match, params) : missingRunView(container, match.source));
}

function missingRunView(container, source) {
  const words = `No run here is called “${source}”: the viewer was started with other paths, or has not found it yet.`;
  container.append(page("There is no such run", words));
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
