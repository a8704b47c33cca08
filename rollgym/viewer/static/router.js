// One page, many addresses. The address is the whole state of a view: it can be reproduced from its path
// and query. The scroll position is kept in the history entry, so that back and forward restore it.
//
// A route is `{pattern, view}`: `{name}` in a pattern matches one part of the path. A view is
// `view(container, match, params) → {update?(params), destroy()}`; `update` is called when only the
// query changed; a view without it is created again.

import { h } from "./dom.js";

let routes = [];
let container = null;
let present = null; // {path, view, instance}
let afterwards = () => {};
let saveVisit = null;

// Draws the route of the present address, and of every later one, into `element`.
// `changed({path, params, match, name})` is called after each.
export function start(element, table, changed) {
  container = element;
  routes = table.map(({ pattern, ...rest }) => ({ ...rest, expression: expression(pattern) }));
  afterwards = changed;
  history.scrollRestoration = "manual";
  window.addEventListener("popstate", show);
  window.addEventListener("pagehide", rememberVisit);
  document.addEventListener("click", followLink);
  show();
}

// Goes to a path of this page, query included.
export function navigate(path, { replace = false } = {}) {
  if (!replace) rememberVisit();
  if (path === location.pathname + location.search) replace = true;
  // A new address starts at the top.
  if (replace) history.replaceState({}, "", path);
  else history.pushState({}, "", path);
  show();
}

// Changes the address without calling the view.
export function note(path) {
  history.replaceState(history.state, "", path);
  if (present) afterwards(present.about());
}

// An <a> that goes to a path of this page in place. `path` may be an object of attributes with
// `href`, for more than the path.
export function link(path, ...children) {
  return h("a", typeof path === "string" ? { href: path } : path, ...children);
}

function current() {
  return { path: location.pathname, params: new URLSearchParams(location.search) };
}

// A path with a query: an object or URLSearchParams.
export function address(path, params) {
  // Commas need no escape in a query, and are easier to read.
  const query = new URLSearchParams(params ?? {}).toString().replaceAll("%2C", ",");
  return query ? `${path}?${query}` : path;
}

// State of the view for a return to this history entry: `save()` returns it just before the entry is
// left; `visit()` is the saved state, or null.
export function onLeave(save) {
  saveVisit = save;
}

export function visit() {
  return history.state?.visit ?? null;
}

function rememberVisit() {
  if (saveVisit) history.replaceState({ ...history.state, visit: saveVisit() }, "");
}

function show() {
  const { path, params } = current();
  if (present && present.path === path && present.instance?.update) {
    present.instance.update(params);
    afterwards(present.about());
    return;
  }
  const first = present === null;
  const route = routes.find((one) => one.expression.test(path)) ?? routes.at(-1);
  const match = { ...(route.expression.exec(path)?.groups ?? {}) };
  for (const name of Object.keys(match)) match[name] = decoded(match[name]);
  present?.instance?.destroy?.();
  saveVisit = null;
  container.replaceChildren();
  container.scrollTop = 0;
  container.className = "";
  present = { path, instance: null, about: () => ({ ...current(), match, name: route.name }) };
  afterwards(present.about());
  present.instance = route.view(container, match, params);
  // The focused link was removed: focus the new content.
  if (!first && document.activeElement === document.body) container.focus({ preventScroll: true });
}

function followLink(event) {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const anchor = event.target.closest?.("a[href]");
  if (!anchor || anchor.hasAttribute("download")) return;
  const href = anchor.getAttribute("href");
  if (!href.startsWith("/") || href.startsWith("/api/")) return;
  event.preventDefault();
  navigate(href);
}

function expression(pattern) {
  const source = pattern.replace(/\{(\w+)\}/g, "(?<$1>[^/]+)");
  return new RegExp(`^${source}$`);
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
