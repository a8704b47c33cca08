// JSON as a tree with folds. The children of a branch are created when it is first opened, so that a
// value of any size or depth is shown immediately.

import { button, copyButton, quietButton } from "./buttons.js";
import { h } from "./dom.js";
import { count, counted } from "./format.js";

const PORTION = 100;
const LONG_STRING = 1_000;
const OPEN_CHILDREN = 12;
const PREVIEW = 60;
const LONGEST_PARSED = 20_000_000;

// A number that JavaScript would change, as it is written in the file.
class Numeral {
  constructor(source) {
    this.source = source;
  }
}

function keepNumerals(key, value, context) {
  const source = context?.source;
  if (typeof value !== "number" || source === undefined || /[.eE]/.test(source)) return value;
  return String(value) === source ? value : new Numeral(source);
}

// The value of a JSON text; undefined if it is not JSON. Big integers keep all their digits.
export function parseJson(text) {
  if (text.length > LONGEST_PARSED) return undefined;
  try {
    return /\d{16}/.test(text) ? JSON.parse(text, keepNumerals) : JSON.parse(text);
  } catch {
    return undefined;
  }
}

// Whether a text is an object or an array that is not empty.
export function isTree(value) {
  return isBranch(value) && Object.keys(value).length > 0;
}

function isBranch(value) {
  return typeof value === "object" && value !== null && !(value instanceof Numeral);
}

// A tree of a JSON value. `depth` levels are open at first, unless they have many members.
export function jsonTree(value, { depth = 2 } = {}) {
  return h("div", { class: "json" }, node(null, value, depth, true));
}

function node(key, value, depth, last) {
  return isTree(value) ? branch(key, value, depth, last) : leaf(key, value, last);
}

function leaf(key, value, last) {
  return h("div", { class: "json-leaf" }, keyNodes(key), scalar(value), last ? null : ",");
}

function keyNodes(key) {
  if (key === null) return null;
  const name = typeof key === "number" ? h("span", { class: "json-index" }, String(key)) : quoted(key);
  return [name, ": "];
}

function quoted(key) {
  return h("span", { class: "tok-key" }, JSON.stringify(key));
}

function branch(key, value, depth, last) {
  const isArray = Array.isArray(value);
  const keys = isArray ? null : Object.keys(value);
  const size = isArray ? value.length : keys.length;
  const [start, end] = isArray ? "[]" : "{}";
  const children = h("div", { class: "json-children" });
  let shown = 0;
  const more = () => {
    children.querySelector(":scope > .json-more")?.remove();
    const until = Math.min(shown + PORTION, size);
    for (; shown < until; shown += 1) {
      const name = isArray ? shown : keys[shown];
      children.append(node(name, value[name], depth - 1, shown === size - 1));
    }
    if (shown < size) children.append(moreButton(size - shown, more));
  };
  const fill = () => {
    if (details.open && shown === 0) more();
  };
  const details = h(
    "details",
    { class: "json-branch", on: { toggle: fill } },
    h(
      "summary",
      {},
      keyNodes(key),
      start,
      h("span", { class: "json-preview" }, preview(value, keys), end, last ? null : ","),
    ),
    children,
    h("div", { class: "json-end" }, end, last ? null : ","),
  );
  details.open = depth > 0 && (size <= OPEN_CHILDREN || key === null);
  // The `toggle` event comes late; the children of open branches are created immediately.
  fill();
  return details;
}

function moreButton(left, more) {
  const words = left > PORTION ? `Show ${PORTION} more of ${count(left)}` : `Show the other ${left}`;
  return button(words, more, { class: "quiet json-more" });
}

// A short preview of a folded branch.
function preview(value, keys) {
  if (!keys) return ` ${counted(value.length, "item")} `;
  let words = "";
  for (const key of keys) {
    if (words.length > PREVIEW) return ` ${words} … `;
    words += (words && ", ") + key.slice(0, PREVIEW);
  }
  return ` ${words} `;
}

function scalar(value) {
  if (typeof value === "string") return string(value);
  if (value instanceof Numeral) return h("span", { class: "tok-number" }, value.source);
  if (typeof value === "number") return h("span", { class: "tok-number" }, String(value));
  if (isBranch(value)) return Array.isArray(value) ? "[]" : "{}";
  return h("span", { class: "tok-literal" }, String(value));
}

function string(value) {
  const shown = h("span", { class: "tok-string json-string" }, JSON.stringify(value.slice(0, LONG_STRING)));
  if (value.length <= LONG_STRING) return shown;
  const showAll = () => {
    shown.textContent = JSON.stringify(value);
    more.remove();
  };
  const more = quietButton(`… Show all ${count(value.length)} characters`, showAll);
  return [shown, " ", more, copyButton(value)];
}

// The formatted text of a value; the text itself if it cannot be formatted.
export function pretty(text) {
  if (/\d{16}/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
