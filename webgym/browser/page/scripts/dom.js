// Access to the DOM that a page cannot mislead.
//
// The fields of a form hide its properties (`<input name=parentNode>`), so everything is read with
// the getters of the prototypes. Pages cannot patch those, because this world has separate ones.

const reader = (kind, name) => {
  const get = Object.getOwnPropertyDescriptor(kind.prototype, name).get;
  return (node) => get.call(node);
};
const method = (kind, name) => {
  const called = kind.prototype[name];
  return (node, ...given) => called.apply(node, given);
};

const ELEMENT = 1;
const TEXT = 3;
const DOCUMENT = 9;
const FRAGMENT = 11;
const NEVER_SHOWN = new Set([
  "head", "script", "style", "template", "noscript", "link", "meta", "title", "base", "datalist",
  "source", "track", "param", "br", "wbr", "col", "colgroup", "desc", "defs",
]);

const nodeType = reader(Node, "nodeType");
const parentNode = reader(Node, "parentNode");
const firstChild = reader(Node, "firstChild");
const nextSibling = reader(Node, "nextSibling");
const ownerDocument = reader(Node, "ownerDocument");
const isConnected = reader(Node, "isConnected");
const textContent = reader(Node, "textContent");
const rootNode = method(Node, "getRootNode");
const contains = method(Node, "contains");
const tagOf = reader(Element, "localName");
const openShadow = reader(Element, "shadowRoot");
const shadowOf = (element) => openShadow(element) ?? closedRoots.get(element) ?? null;
const slotOf = reader(Element, "assignedSlot");
const firstElement = reader(Element, "firstElementChild");
const nextElement = reader(Element, "nextElementSibling");
const childCount = reader(Element, "childElementCount");
const attribute = method(Element, "getAttribute");
const hasAttribute = method(Element, "hasAttribute");
const matches = method(Element, "matches");
const closest = method(Element, "closest");
const boundsOf = method(Element, "getBoundingClientRect");
const clientRects = method(Element, "getClientRects");
const checkVisibility = method(Element, "checkVisibility");
const scrollIntoView = method(Element, "scrollIntoView");
const queryAll = method(Element, "querySelectorAll");
const clientHeight = reader(Element, "clientHeight");
const clientWidth = reader(Element, "clientWidth");
const scrollHeight = reader(Element, "scrollHeight");
const scrollWidth = reader(Element, "scrollWidth");
const offsetWidth = reader(HTMLElement, "offsetWidth");
const offsetHeight = reader(HTMLElement, "offsetHeight");
const innerTextOf = reader(HTMLElement, "innerText");
const documentRoot = reader(Document, "documentElement");
const documentBody = reader(Document, "body");
const viewOf = reader(Document, "defaultView");
const styleOf = (element) => getComputedStyle(element);

const namespaceOf = reader(Element, "namespaceURI");
const isHtml = (element) => namespaceOf(element) === "http://www.w3.org/1999/xhtml";
const isContentEditable = reader(HTMLElement, "isContentEditable");
const isFrame = (tag) => tag === "iframe" || tag === "frame";

// The document inside a frame; null if it has another origin or does not exist yet.
const iframeDocument = reader(HTMLIFrameElement, "contentDocument");
const framesetDocument = reader(HTMLFrameElement, "contentDocument");
function frameDocument(element) {
  const tag = tagOf(element);
  if (!isFrame(tag) || !isHtml(element)) return null;
  const inner = tag === "iframe" ? iframeDocument(element) : framesetDocument(element);
  return inner && documentRoot(inner) ? inner : null;
}

// The frame of a document; null for the page itself and for a document whose frame is gone.
function frameOf(inner) {
  const view = viewOf(inner);
  return inner === document || !view ? null : view.frameElement;
}

// Whether an element is still part of the page; a removed frame removes its whole document.
function isOnPage(element) {
  let node = element;
  for (let depth = 0; depth < 64; depth++) {
    if (!isConnected(node)) return false;
    const home = ownerDocument(node);
    if (home === document) return true;
    node = frameOf(home);
    if (!node) return false;
  }
  return false;
}

// The parent in the layout: slots are between a host and its children.
function flatParent(element) {
  const slot = slotOf(element);
  if (slot) return slot;
  const parent = parentNode(element);
  if (!parent) return null;
  const type = nodeType(parent);
  if (type === ELEMENT) return parent;
  return type === FRAGMENT ? (parent.host ?? null) : null;
}

// The same as `flatParent`, also across frames.
function outerParent(element) {
  return flatParent(element) ?? frameOf(ownerDocument(element));
}

// Whether one element contains another, also inside shadow roots and frames.
function holds(outer, inner) {
  let node = inner;
  for (let depth = 0; node && depth < 256; depth++) {
    if (contains(outer, node)) return true;
    const root = rootNode(node);
    node = nodeType(root) === FRAGMENT ? (root.host ?? null) : frameOf(ownerDocument(node));
  }
  return false;
}

// The nearest element, itself included, that a test accepts.
function nearest(element, accepts) {
  for (let node = element; node; node = outerParent(node)) if (accepts(node)) return node;
  return null;
}

// Push the layout children of an element on a stack in reverse order.
function pushChildren(element, stack, limit) {
  const isSlot = tagOf(element) === "slot" && isHtml(element);
  const children = isSlot ? element.assignedNodes() : [];
  if (!children.length) {
    let child = firstChild(shadowOf(element) ?? element);
    for (; child && children.length < limit; child = nextSibling(child)) children.push(child);
  }
  for (let index = children.length - 1; index >= 0; index--) stack.push(children[index]);
}

function activeElement() {
  let active = document.activeElement;
  for (let depth = 0; active && depth < 64; depth++) {
    const inner = shadowOf(active) ?? frameDocument(active);
    const next = inner && inner.activeElement;
    if (!next) break;
    active = next;
  }
  return active;
}

// Bounded text without halves of surrogate pairs, which encoders reject.
function bounded(text, limit) {
  const value = String(text ?? "");
  return (value.length > limit ? `${value.slice(0, limit - 1)}…` : value).toWellFormed();
}
const oneLine = (text, limit) => bounded(String(text ?? "").replace(/\s+/g, " ").trim(), limit);
