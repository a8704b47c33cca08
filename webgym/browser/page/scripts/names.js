// The role, the accessible name and the visible text of an element.

const TEXT_LIMIT = 200;
const TYPED = new Set(["text", "search", "email", "url", "tel", "password", "number"]);
const PICKED = new Set(["date", "time", "datetime-local", "month", "week", "color", "range"]);
const PRESSED = new Set(["button", "submit", "reset", "image"]);
const INPUT_ROLES = {
  button: "button", submit: "button", reset: "button", image: "button", file: "button",
  checkbox: "checkbox", radio: "radio", range: "slider", number: "spinbutton", search: "searchbox",
};
const TAG_ROLES = {
  a: "link", area: "link", button: "button", summary: "button", textarea: "textbox",
  option: "option", iframe: "iframe", frame: "iframe", video: "video", audio: "audio", img: "img",
};

function roleOf(element, tag) {
  const given = attribute(element, "role");
  if (given) {
    const first = given.trim().split(/\s+/)[0].toLowerCase();
    if (first && first !== "none" && first !== "presentation") return bounded(first, 40);
  }
  if (tag === "input") return INPUT_ROLES[element.type] ?? "textbox";
  if (tag === "select") return isDropDown(element) ? "combobox" : "listbox";
  if (isHtml(element) && isContentEditable(element)) return "textbox";
  return TAG_ROLES[tag] ?? "generic";
}

const isDropDown = (select) => !select.multiple && select.size <= 1;

// The kind of a field, which decides how it is filled.
function kindOf(element) {
  if (!isHtml(element)) return "other";
  const tag = tagOf(element);
  if (tag === "input") {
    const type = element.type;
    if (TYPED.has(type)) return "text";
    if (PICKED.has(type)) return "picker";
    if (PRESSED.has(type)) return "button";
    return type === "file" ? "file" : "toggle";
  }
  if (tag === "textarea") return "text";
  if (tag === "select") return isDropDown(element) ? "dropdown" : "listbox";
  if (tag === "option") return "option";
  if (isContentEditable(element)) return "rich";
  return tag === "button" ? "button" : "other";
}

function isDisabled(element) {
  return matches(element, ":disabled") || attribute(element, "aria-disabled") === "true";
}

function isEditable(element, kind) {
  if (kind !== "text" && kind !== "rich" && kind !== "picker") return false;
  return !isDisabled(element) && !element.readOnly;
}

const UNREAD = new Set([
  ...NEVER_SHOWN, "select", "textarea", "svg", "iframe", "frame", "canvas", "video", "audio",
]);
const JOINED = new Set([
  "b", "i", "em", "strong", "sub", "sup", "u", "s", "mark", "font", "code", "abbr", "small",
]);

// The visible text of an element on one line. With `alternatives`, also that of pictures.
function readText(element, limit, alternatives) {
  let text = "";
  let steps = 0;
  const waiting = [element];
  while (waiting.length && text.length < limit + 50 && steps++ < 400) {
    const node = waiting.pop();
    if (typeof node === "string") {
      text += node;
      continue;
    }
    const type = nodeType(node);
    if (type === TEXT) {
      text += node.data.slice(0, 4 * limit);
      continue;
    }
    if (type !== ELEMENT) continue;
    const tag = tagOf(node);
    if (node !== element) {
      if (alternatives) {
        const label = attribute(node, "aria-label") || (tag === "img" && attribute(node, "alt"));
        if (label) {
          text += ` ${label} `;
          continue;
        }
        if (tag === "svg") text += ` ${svgTitle(node)} `;
      }
      if (UNREAD.has(tag) || !checkVisibility(node, VISIBILITY_ONLY)) continue;
      if (!JOINED.has(tag)) {
        text += " ";
        waiting.push(" ");
      }
    }
    pushChildren(node, waiting, 100);
  }
  return oneLine(text, limit);
}
const VISIBILITY_ONLY = { visibilityProperty: true };

function svgTitle(svg) {
  for (let child = firstElement(svg); child; child = nextElement(child)) {
    if (tagOf(child) === "title") return textContent(child);
  }
  return "";
}

// The accessible name of an element, in the order of ARIA.
function nameOf(element, tag) {
  return (
    oneLine(labelledBy(element), TEXT_LIMIT) ||
    oneLine(attribute(element, "aria-label"), TEXT_LIMIT) ||
    oneLine(nativeName(element, tag), TEXT_LIMIT) ||
    oneLine(attribute(element, "title"), TEXT_LIMIT) ||
    oneLine(attribute(element, "placeholder") ?? attribute(element, "aria-placeholder"), TEXT_LIMIT)
  );
}

function labelledBy(element) {
  const given = attribute(element, "aria-labelledby");
  if (!given) return "";
  const root = rootNode(element);
  if (!root.getElementById) return "";
  const labels = given.trim().split(/\s+/).slice(0, 8).map((id) => root.getElementById(id));
  const read = (label) => (label ? readText(label, TEXT_LIMIT, true) || textContent(label) : "");
  return labels.map(read).join(" ");
}

function nativeName(element, tag) {
  if (!isHtml(element)) {
    const text = svgTitle(element) || readText(element, TEXT_LIMIT, true);
    if (text || !SHAPE_TAGS.has(tag)) return text;
    return `${attribute(element, "fill") ?? ""} ${tag}`.trim();
  }
  if (tag === "input" && PRESSED.has(element.type)) {
    const standard = { submit: "Submit", reset: "Reset" }[element.type];
    return element.value || attribute(element, "alt") || standard;
  }
  if (tag === "input" || tag === "select" || tag === "textarea") return labelText(element);
  if (tag === "img" || tag === "area") return attribute(element, "alt");
  if (isFrame(tag)) return attribute(element, "title") || attribute(element, "name");
  if (isContentEditable(element)) return "";
  const labels = tag === "button" ? labelText(element) : "";
  return labels || readText(element, TEXT_LIMIT, true);
}

function labelText(element) {
  return Array.from(element.labels ?? [])
    .slice(0, 3)
    .map((label) => readText(label, TEXT_LIMIT, true))
    .join(" ");
}
