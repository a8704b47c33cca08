// The page as a tree of roles and names, for pages that are too large for the browser's own tree.
//
// It has the format of the browser's answer, but the numbers of marks instead of the browser's. It
// is written in document order until its time or size limit is reached, and then says so.

const OUTLINE_NODES = 4_000;
const OUTLINE_MS = 400;
const SHOWN_ROLES = {
  nav: "navigation", main: "main", aside: "complementary", article: "article", form: "form",
  ul: "list", ol: "list", menu: "list", li: "listitem", dl: "list", table: "table", tr: "row",
  td: "cell", th: "columnheader", dialog: "dialog", fieldset: "group", figure: "figure",
  img: "image", progress: "progressbar", meter: "meter", hr: "separator", details: "group",
  h1: "heading", h2: "heading", h3: "heading", h4: "heading", h5: "heading", h6: "heading",
};
const CALLED_BY_CONTENT = new Set([
  "link", "button", "heading", "option", "tab", "menuitem", "menuitemcheckbox", "menuitemradio",
  "checkbox", "radio", "switch", "treeitem", "columnheader", "image", "img", "textbox", "searchbox",
  "spinbutton", "slider", "combobox", "listbox",
]);

function outline() {
  const deadline = performance.now() + OUTLINE_MS;
  const nodes = [];
  const marked = new Set(lastMarks.map(({ id }) => id));
  const writer = { nodes, marked, focused: activeElement() };
  const waiting = [[document, null]];
  while (waiting.length) {
    if (nodes.length >= OUTLINE_NODES || performance.now() > deadline) break;
    const [node, parent] = waiting.pop();
    const type = nodeType(node);
    if (type === TEXT) outlineText(node, parent, writer);
    else if (type === DOCUMENT) outlineDocument(node, parent, writer, waiting);
    else if (type === ELEMENT) outlineElement(node, parent, writer, waiting);
  }
  return { nodes, whole: waiting.length === 0 };
}

// Add a node below its parent.
function addNode(writer, parent, role, name, more) {
  const node = { nodeId: String(writer.nodes.length + 1), role: { value: role }, childIds: [] };
  if (name) node.name = { value: name };
  if (parent) {
    node.parentId = parent.nodeId;
    parent.childIds.push(node.nodeId);
  }
  writer.nodes.push(Object.assign(node, more));
  return node;
}

function outlineDocument(inner, parent, writer, waiting) {
  const node = addNode(writer, parent, "RootWebArea", oneLine(inner.title, TEXT_LIMIT));
  const root = documentRoot(inner);
  if (root) waiting.push([root, node]);
}

function outlineText(node, parent, writer) {
  const said = oneLine(node.data.slice(0, 4 * TEXT_LIMIT), TEXT_LIMIT);
  const holder = parentNode(node);
  if (!said) return;
  if (holder && nodeType(holder) === ELEMENT) {
    if (styleOf(holder).visibility !== "visible") return;
    if (tagOf(holder) === "details" && !hasAttribute(holder, "open")) return;
  }
  addNode(writer, parent, "StaticText", said);
}

function outlineElement(element, parent, writer, waiting) {
  const tag = tagOf(element);
  if (NEVER_SHOWN.has(tag) || attribute(element, "aria-hidden") === "true") return;
  const style = styleOf(element);
  if (style.display === "none") return;
  if (style.display !== "contents" && !checkVisibility(element)) return;
  const node = style.visibility === "visible" ? outlined(element, tag, parent, writer) : null;
  const inner = frameDocument(element);
  const children = [];
  if (inner) children.push(inner);
  else if (!UNREAD.has(tag)) pushChildren(element, children, OUTLINE_NODES);
  for (const child of children) waiting.push([child, node ?? parent]);
}

// The node of an element; null if it only contains others.
function outlined(element, tag, parent, writer) {
  const role = outlineRole(element, tag);
  const number = numbers.get(element);
  const isMarked = writer.marked.has(number);
  const byContent = CALLED_BY_CONTENT.has(role);
  const name = byContent || isFrame(tag) ? nameOf(element, tag) : scrollName(element);
  if (role === "generic" && !name && !isMarked) return null;
  const kind = kindOf(element);
  const more = { properties: outlineProperties(element, tag, role, kind, writer.focused) };
  const value = valueOf(element, kind);
  if (value) more.value = { value };
  if (isMarked) more.backendDOMNodeId = number;
  return addNode(writer, parent, role, name, more);
}

function outlineRole(element, tag) {
  if (tag === "a" && !hasAttribute(element, "role") && !hrefOf(element, tag)) return "generic";
  const role = roleOf(element, tag);
  return role === "generic" || role === "img" ? (SHOWN_ROLES[tag] ?? role) : role;
}

function outlineProperties(element, tag, role, kind, focused) {
  const states = { role };
  addStates(states, element, tag, kind);
  if (/^h[1-6]$/.test(tag)) states.level = Number(tag[1]);
  const href = hrefOf(element, tag);
  if (href) states.url = href;
  if (element === focused) states.focused = true;
  if (isDisabled(element)) states.disabled = true;
  if (element.required === true) states.required = true;
  delete states.role;
  return Object.entries(states).map(([name, value]) => ({ name, value: { value } }));
}
