// Elements from data. The page never parses markup: strings of a rollout become text nodes and attribute
// values, and the attributes that could run code or fetch a resource are rejected here, for all callers.

const SVG = "http://www.w3.org/2000/svg";
const MATH = "http://www.w3.org/1998/Math/MathML";

const REJECTED_TAGS = new Set([
  "script", "style", "iframe", "frame", "object", "embed", "base", "meta", "link", "foreignobject",
]);
const REJECTED_ATTRIBUTES = new Set(["style", "srcdoc", "srcset", "ping", "target", "attributename"]);
const ADDRESSES = new Set(["href", "src", "xlink:href", "action", "formaction", "poster", "data"]);
const AS_PROPERTY = new Set(["value", "checked", "indeterminate", "scrollTop"]);
const OWN_PATH = /^(?:\/(?![/\\])|#)[^\u0000-\u001f\\]*$/;
const PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*$/;

// An HTML element. `props`: `class`, `text`, `on: {click: f}`, `data: {}`, `style: {}` (set one by
// one), and attributes; null, undefined and false leave one out. `children`: nodes, strings and
// numbers (as text), arrays of them, null. Throws for anything that could run or fetch something.
export function h(tag, props, ...children) {
  return build(document.createElement(accepted(tag)), props, children);
}

export function svg(tag, props, ...children) {
  return build(document.createElementNS(SVG, accepted(tag)), props, children);
}

export function math(tag, props, ...children) {
  return build(document.createElementNS(MATH, accepted(tag)), props, children);
}

// Replaces the children of a node.
export function fill(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

// Replaces the children of a node while it is used: the keyboard focus stays at the element with the
// same `data-key`.
export function refill(node, ...children) {
  const held = heldKey(node);
  fill(node, ...children);
  holdKey(node, held);
  return node;
}

// The key of the focused element within `node`, or null.
export function heldKey(node) {
  const { activeElement } = document;
  return node !== activeElement && node.contains(activeElement) ? activeElement.dataset.key ?? null : null;
}

export function holdKey(node, key) {
  if (key === null) return;
  node.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

// Converts rem to pixels; the user may have chosen a larger font.
export function rem(many) {
  return many * parseFloat(getComputedStyle(document.documentElement).fontSize);
}

function accepted(tag) {
  if (REJECTED_TAGS.has(tag.toLowerCase())) throw new TypeError(`<${tag}> is not allowed`);
  return tag;
}

function build(element, props, children) {
  const later = [];
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.setAttribute("class", value);
    else if (name === "text") element.textContent = value;
    else if (name === "on") listen(element, value);
    else if (name === "data") setData(element, value);
    else if (name === "style" && typeof value === "object") setStyle(element, value);
    else if (AS_PROPERTY.has(name) && name in element) later.push([name, value]);
    else setAttribute(element, name, value === true ? "" : String(value));
  }
  append(element, children);
  // A select has no value before it has its options.
  for (const [name, value] of later) element[name] = value;
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

function listen(element, listeners) {
  for (const [event, listener] of Object.entries(listeners)) {
    element.addEventListener(event, listener);
  }
}

function setData(element, values) {
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined) element.dataset[name] = value;
  }
}

function setStyle(element, rules) {
  for (const [name, value] of Object.entries(rules)) {
    if (value !== null && value !== undefined) element.style.setProperty(name, value);
  }
}

function setAttribute(element, name, value) {
  const known = name.toLowerCase();
  if (known.startsWith("on") || REJECTED_ATTRIBUTES.has(known)) {
    throw new TypeError(`the attribute ${name} is not allowed`);
  }
  if (ADDRESSES.has(known) && !isOwnAddress(known, value)) {
    throw new TypeError(`${name} may only lead to this page's own server: ${value.slice(0, 80)}`);
  }
  element.setAttribute(name, value);
}

function isOwnAddress(name, value) {
  return OWN_PATH.test(value) || (name === "src" && PICTURE.test(value));
}
