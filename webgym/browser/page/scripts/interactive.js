// Whether an element is declared as interactive, editable or scrollable.

const ROLES = new Set([
  "button", "link", "menuitem", "menuitemcheckbox", "menuitemradio", "tab", "checkbox", "radio",
  "option", "switch", "combobox", "textbox", "searchbox", "slider", "spinbutton", "treeitem",
]);
const NATIVE = new Set(["button", "select", "textarea", "summary"]);
const CONTROLS = new Set(["input", "select", "textarea"]);
const STRONG_TAGS = new Set(["a", "area", "button", "summary", "option", "video", "audio"]);

// Finds all candidates; `isInteractive` filters them, which is faster than one exact selector.
const INTERACTIVE_SELECTOR = [
  "a", "area", "button", "input", "select", "textarea", "summary", "video", "audio", "[role]",
  "[onclick]", "[tabindex]", "[contenteditable]", "[draggable]",
].join();

// Listeners that are written as attributes; the early script notes all others.
const LISTENER_ATTRIBUTES = [
  "[ondblclick]", "[onmousedown]", "[onmouseup]", "[onpointerdown]", "[onpointerup]",
  "[ontouchstart]", "[oncontextmenu]", "[ondrop]",
].join();

function isInteractive(element, tag) {
  if (isHtml(element)) {
    if (NATIVE.has(tag)) return true;
    if (tag === "input") return element.type !== "hidden";
    if (tag === "video" || tag === "audio") return hasAttribute(element, "controls");
    const editable = attribute(element, "contenteditable");
    if ((editable !== null && editable !== "false") || isWritable(element, tag)) return true;
  }
  if (tag === "a" || tag === "area") {
    if (hasAttribute(element, "href") || hasAttribute(element, "xlink:href")) return true;
    // Without an address it is a link for scripts, or with a name a place to link to.
    const isPlace = !isHtml(element) || hasAttribute(element, "name");
    if (!isPlace && readText(element, 20, true)) return true;
  }
  if (isUsed(element, tag) || isDraggable(element)) return true;
  if (ROLES.has(attribute(element, "role")) || hasAttribute(element, "onclick")) return true;
  const stop = attribute(element, "tabindex");
  return stop !== null && !stop.trim().startsWith("-");
}

// Whether an element listens for clicks or drops, and is not the whole page.
const isUsed = (element, tag) => listening.has(element) && tag !== "html" && tag !== "body";

// Whether the page lets people drag an element natively.
const isDraggable = (element) => attribute(element, "draggable") === "true";

// Cursors that promise a drag: of an item, a divider, the corner of an area.
const DRAG_CURSOR = /^(?:grab|grabbing|move|all-scroll|[a-z]+-resize)$/;

// Whether an element has such a cursor itself: what is inside it inherits the cursor.
function isHandle(element, { cursor }) {
  if (!DRAG_CURSOR.test(cursor)) return false;
  const parent = flatParent(element);
  return parent !== null && styleOf(parent).cursor !== cursor;
}

// Whether listening is the only sign that an element is interactive, or its role is that of a
// container. Then it may only stand for the elements inside it.
function onlyListens({ element, tag, strength }) {
  if (strength !== "weak") return false;
  if (CONTAINER_ROLES.has(attribute(element, "role"))) return true;
  if (!listening.has(element)) return false;
  if (hasAttribute(element, "onclick") || hasAttribute(element, "tabindex")) return false;
  return !isFrame(tag) && styleOf(element).cursor !== "pointer";
}

// Containers of entries: each entry is one to use, not all of them together.
const CONTAINER_ROLES = new Set([
  "menu", "menubar", "listbox", "list", "tablist", "radiogroup", "toolbar", "tree", "grid", "group",
  "treegrid", "table", "navigation", "main", "region", "form", "dialog", "application",
]);

const SHAPES = "circle, ellipse, rect, polygon, polyline, path, line, text, image, use";
const SHAPE_TAGS = new Set(SHAPES.split(", "));

// A document in design mode is one large field.
const isWritable = (element, tag) =>
  tag === "body" && ownerDocument(element).designMode === "on";

// How certain it is that an element itself, and nothing inside it, is interactive.
function strengthOf(element, tag) {
  if (isHtml(element) && (CONTROLS.has(tag) || isContentEditable(element))) return "control";
  return STRONG_TAGS.has(tag) || ROLES.has(attribute(element, "role")) ? "strong" : "weak";
}

function isInsideEditable(element) {
  const parent = flatParent(element);
  if (parent === null || tagOf(parent) === "html" || !isHtml(parent)) return false;
  return isContentEditable(parent);
}

// Whether a person can scroll an element in any direction.
function scrollsBy(element, style) {
  const down = style.overflowY === "auto" || style.overflowY === "scroll";
  const across = style.overflowX === "auto" || style.overflowX === "scroll";
  return (
    (down && scrollHeight(element) > clientHeight(element) + 4) ||
    (across && scrollWidth(element) > clientWidth(element) + 4)
  );
}

// Whether the children of an element look like entries of a list, each interactive by itself.
const PIECES = new Set([
  "td", "th", "span", "b", "i", "em", "strong", "small", "img", "svg", "label", "p", "h1", "h2",
  "h3",
]);
function isListLike(element) {
  const first = firstElement(element);
  if (!first || childCount(element) < 3) return false;
  const [tag, style] = [tagOf(first), attribute(first, "class")];
  if (PIECES.has(tag)) return false;
  let child = nextElement(first);
  for (let seen = 1; child && seen < 50; seen++, child = nextElement(child)) {
    if (tagOf(child) !== tag || attribute(child, "class") !== style) return false;
  }
  return true;
}
