// Descriptions of elements, with the facts that are needed to choose one.

const OPTIONS_EACH = 300;
const CHECKABLE = new Set(["checkbox", "radio", "switch", "menuitemcheckbox", "menuitemradio"]);
const MASK = "••••••••";

function describe(candidate, focused, budget) {
  const { element, tag } = candidate;
  const kind = kindOf(element);
  const answer = { id: numberOf(element), tag, role: roleOf(element, tag) };
  answer.box = roundedBox(aimedBox(candidate));
  answer.name = candidate.scrolls ? scrollName(element) : nameOf(element, tag);
  answer.text = textFor(element, kind, candidate);
  if (!candidate.inView) answer.in_view = false;
  if (candidate.scrollable) answer.scrollable = true;
  if (isDisabled(element)) answer.disabled = true;
  if (isEditable(element, kind)) answer.editable = true;
  if (focused === element || (kind === "rich" && contains(element, focused))) answer.focused = true;
  if (tag === "input" || tag === "button") answer.type = bounded(element.type, 40);
  const value = valueOf(element, kind);
  if (value !== null) answer.value = value;
  const placeholder = attribute(element, "placeholder") ?? attribute(element, "aria-placeholder");
  if (placeholder) answer.placeholder = oneLine(placeholder, TEXT_LIMIT);
  const href = hrefOf(element, tag);
  if (href) answer.href = href;
  addStates(answer, element, tag, kind);
  if (kind === "dropdown" || kind === "listbox") answer.options = optionsOf(element, budget);
  return answer;
}

// A box whose middle hits the element. The middle of a link over two lines may lie outside of both:
// such a link gets the box of its largest part.
function aimedBox({ box, parts }) {
  const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
  const middle = { left: x, top: y, right: x + 1, bottom: y + 1 };
  if (parts.some((part) => touches(part, middle))) return box;
  return parts.reduce((best, part) => (areaOf(part) > areaOf(best) ? part : best));
}

function roundedBox(box) {
  const round = (length) => Math.round(length * 10) / 10;
  return {
    x: round(box.left),
    y: round(box.top),
    width: round(box.right - box.left),
    height: round(box.bottom - box.top),
  };
}

function scrollName(element) {
  const given = labelledBy(element) || attribute(element, "aria-label");
  return oneLine(given || attribute(element, "title"), TEXT_LIMIT);
}

function textFor(element, kind, candidate) {
  if (candidate.scrolls) return "";
  if (kind === "toggle" || kind === "file") return oneLine(labelText(element), TEXT_LIMIT);
  if (kind === "button" && candidate.tag === "input") return oneLine(element.value, TEXT_LIMIT);
  if (kind === "text" || kind === "picker") {
    return valueOf(element, kind) || oneLine(element.placeholder, TEXT_LIMIT);
  }
  if (kind === "dropdown" || kind === "listbox") return valueOf(element, kind) ?? "";
  if (kind === "option") return oneLine(element.label, TEXT_LIMIT);
  return readText(element, TEXT_LIMIT, false);
}

function valueOf(element, kind) {
  if (kind === "text" && element.type === "password") return element.value ? MASK : "";
  if (kind === "text" || kind === "picker") return bounded(element.value, TEXT_LIMIT);
  if (kind === "rich") return readText(element, TEXT_LIMIT, false);
  if (kind === "file") {
    return bounded(Array.from(element.files ?? [], (file) => file.name).join(", "), TEXT_LIMIT);
  }
  if (kind === "dropdown" || kind === "listbox") {
    const chosen = Array.from(element.selectedOptions).slice(0, 20);
    return oneLine(chosen.map((option) => option.label).join(", "), TEXT_LIMIT);
  }
  return null;
}

function hrefOf(element, tag) {
  if (tag !== "a" && tag !== "area") return null;
  const href = isHtml(element) ? element.href : element.href?.baseVal;
  if (!href) return null;
  const isWhole = /^https?:/.test(href) && href.length <= 2000;
  return isWhole ? href.toWellFormed() : bounded(href, TEXT_LIMIT);
}

function addStates(answer, element, tag, kind) {
  if (kind === "toggle" && !element.indeterminate) answer.checked = element.checked;
  else if (CHECKABLE.has(answer.role)) {
    const checked = attribute(element, "aria-checked");
    if (checked === "true" || checked === "false") answer.checked = checked === "true";
  }
  if (kind === "option") answer.checked = element.selected;
  const expanded = attribute(element, "aria-expanded");
  if (expanded === "true" || expanded === "false") answer.expanded = expanded === "true";
  else if (tag === "summary") {
    const details = parentNode(element);
    if (details && nodeType(details) === ELEMENT) answer.expanded = hasAttribute(details, "open");
  } else if (kind === "dropdown") answer.expanded = isOpen(element);
}

function isOpen(select) {
  return CSS.supports("selector(:open)") && matches(select, ":open");
}

function optionsOf(select, budget) {
  const options = Array.from(select.options).slice(0, Math.min(OPTIONS_EACH, budget.options));
  budget.options -= options.length;
  return options.map((option) => ({
    id: numberOf(option),
    text: oneLine(option.label, TEXT_LIMIT),
    value: bounded(option.value, TEXT_LIMIT),
    selected: option.selected,
  }));
}
