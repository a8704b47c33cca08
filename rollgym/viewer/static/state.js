// State that all views share: the sources with the state of their indexes, and stored preferences.
//
// The server sends an event when a source has changed. Views subscribe with `onVersion`, which pauses
// between two refreshes and while the page is hidden.

import { get } from "./api.js";

const PREFIX = "rollgym.";
const PAUSE = 2000;

const known = new Map();
const listeners = new Set();
const monitorListeners = new Set();
const causes = new Map();
let connected = null;

// All sources, in the server's order.
export function sources() {
  return [...known.values()];
}

export function sourceOf(id) {
  return known.get(id) ?? null;
}

// The share of a source that was read, rounded down.
export function shareRead({ read, size }) {
  return size ? Math.floor((100 * read) / size) / 100 : 0;
}

// Calls `listener(source)` whenever a source changes, and `listener(null)` when the connection to the
// server is made or lost.
export function onSource(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function onMonitor(id, listener) {
  const heard = (event) => event.id === id && listener(event.snapshots);
  monitorListeners.add(heard);
  return () => monitorListeners.delete(heard);
}

// Whether events arrive; null before it is known.
export function isConnected() {
  return connected;
}

export async function loadSources() {
  const answer = await get("/api/sources");
  for (const source of answer.sources) known.set(source.id, source);
  for (const source of answer.sources) tell(source);
}

export function listenForEvents() {
  const stream = new EventSource("/api/events");
  stream.addEventListener("source", (event) => take(event, (source) => {
    known.set(source.id, source);
    tell(source);
  }));
  stream.addEventListener("monitor", (event) => take(event, (monitor) => {
    for (const listener of [...monitorListeners]) listener(monitor);
  }));
  stream.addEventListener("open", () => setConnected(true));
  stream.addEventListener("error", () => setConnected(false));
}

// Calls `refresh()` when the source has another version than the last time: at most every two
// seconds, never two at once, and not while the page is hidden.
export function onVersion(id, refresh) {
  let seen = sourceOf(id)?.state.version;
  let busy = false;
  let timer = null;
  let ended = false;
  const consider = async () => {
    const version = sourceOf(id)?.state.version;
    if (busy || ended || document.hidden || version === seen) return;
    busy = true;
    seen = version;
    try {
      await refresh();
    } finally {
      timer = setTimeout(() => {
        busy = false;
        consider();
      }, PAUSE);
    }
  };
  const off = onSource(consider);
  document.addEventListener("visibilitychange", consider);
  return () => {
    ended = true;
    off();
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", consider);
  };
}

// The text of a cause by its id, for the label of its filter.
export function nameCause(source, id, text) {
  causes.set(`${source} ${id}`, text);
}

export function causeName(source, id) {
  return causes.get(`${source} ${id}`) ?? null;
}

// A stored preference; storage may be forbidden.
export function preference(name, otherwise = null) {
  try {
    return localStorage.getItem(PREFIX + name) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function prefer(name, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch {
    // Storage is forbidden: the choice is not kept.
  }
}

function tell(source) {
  for (const listener of [...listeners]) listener(source);
}

function take(event, then) {
  let data;
  try {
    data = JSON.parse(event.data);
  } catch {
    return; // cut when the connection was lost; the next event repeats it
  }
  then(data);
}

function setConnected(value) {
  const again = value && connected === false;
  connected = value;
  tell(null);
  // Changes in between were missed.
  if (again) loadSources().catch(() => tell(null));
}
