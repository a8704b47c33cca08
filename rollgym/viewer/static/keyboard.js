// Keyboard shortcuts. Each view registers its own while it is shown; `?` lists all that are valid
// now. A key is what `event.key` says ("j", "Enter", "?"); two with a space between are pressed one
// after the other ("g o"). Shortcuts are off while the user types in a field.

import { h } from "./dom.js";

const SEQUENCE_TIME = 1200;
const FIELDS = "input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]";
const SCROLLING = new Set(["PageDown", "PageUp", "ArrowDown", "ArrowUp", "Home", "End", " "]);
const PRESSABLE = "a, button, summary, [role=menuitemcheckbox], input[type=checkbox]";

const registered = []; // the latest first
let firstKey = null; // {key, time}: the first key of a sequence

// Registers `{"j": {words: "Next rollout", run(event)}}`; call the returned function to remove them.
// A later registration of the same key wins. `group` is their heading.
export function keys(map, group = "This view") {
  const entry = { map, group };
  registered.unshift(entry);
  return () => {
    const at = registered.indexOf(entry);
    if (at >= 0) registered.splice(at, 1);
  };
}

export function listenForKeys() {
  keys({ "?": { words: "Show these shortcuts", run: showHelp } }, "Everywhere");
  document.addEventListener("keydown", pressed);
}

function pressed(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.isComposing || event.target.closest?.(FIELDS)) return;
  if (document.querySelector("dialog[open]")) return;
  // Enter and space on a link or a button activate it.
  if ((event.key === "Enter" || event.key === " ") && event.target.closest?.(PRESSABLE)) return;
  const sequence = firstKey && event.timeStamp - firstKey.time < SEQUENCE_TIME;
  const shortcut = (sequence && find(`${firstKey.key} ${event.key}`)) || find(event.key);
  firstKey = null;
  if (shortcut) {
    event.preventDefault();
    shortcut.run(event);
  } else if (begins(event.key)) {
    firstKey = { key: event.key, time: event.timeStamp };
  } else if (SCROLLING.has(event.key) && event.target === document.body) {
    // A part of the page scrolls, not the window, and keys only scroll the part that has the focus.
    (document.querySelector("main [data-scrolls]") ?? document.querySelector("main")).focus({ preventScroll: true });
  }
}

function find(key) {
  for (const { map } of registered) {
    if (Object.hasOwn(map, key)) return map[key];
  }
  return null;
}

function begins(key) {
  return registered.some(({ map }) => Object.keys(map).some((one) => one.startsWith(`${key} `)));
}

const SHOWN = { ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", " ": "Space" };

// A dialog with every shortcut that is valid now.
export function showHelp() {
  const dialog = h("dialog", { class: "help", "aria-labelledby": "help-title" });
  const close = () => dialog.close();
  const seen = new Set();
  dialog.append(
    h("header", {},
      h("h2", { id: "help-title", text: "Keyboard shortcuts" }),
      h("button", { class: "quiet", on: { click: close }, "aria-label": "Close" }, "✕")),
    h("div", { class: "help-groups" }, groups().map(([group, map]) => helpGroup(map, group, seen))),
  );
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && close());
  document.body.append(dialog);
  dialog.showModal();
}

function groups() {
  const byName = new Map();
  for (const { map, group } of registered) byName.set(group, { ...map, ...byName.get(group) });
  return [...byName];
}

function helpGroup(map, group, seen) {
  // Several keys for one action share a line.
  const lines = new Map();
  for (const [key, { words }] of Object.entries(map)) {
    if (seen.has(key)) continue;
    seen.add(key);
    lines.set(words, [...(lines.get(words) ?? []), key]);
  }
  if (!lines.size) return null;
  return h("section", {},
    h("h3", { text: group }),
    h("dl", {}, [...lines].map(([words, names]) => h("div", {},
      h("dt", {}, names.map((name) => h("span", { class: "chord" },
        name === " " ? h("kbd", { text: SHOWN[" "] })
          : name.split(" ").map((one) => h("kbd", { text: SHOWN[one] ?? one }))))),
      h("dd", { text: words })))));
}

// Several elements that are one stop of the Tab key: the arrow keys go from one to the next.

const BY = { ArrowRight: 1, ArrowLeft: -1 };

// The elements in `box` that match the selector; the first is the stop until another gets the focus.
export function oneStop(box, selector) {
  const members = [...box.querySelectorAll(selector)];
  members.forEach((member, at) => member.setAttribute("tabindex", at ? "-1" : "0"));
  box.addEventListener("keydown", (event) => {
    const at = members.indexOf(event.target);
    if (at < 0 || !(event.key in BY)) return;
    event.preventDefault();
    const next = members[at + BY[event.key]];
    if (!next) return;
    members[at].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}
