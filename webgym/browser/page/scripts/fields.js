// Filling fields: the focused field, selecting its content, and values that are not typed.

// Focus an element before typing. Without a number, the element that the click has focused.
function focusForTyping(id, x, y) {
  let active = activeElement();
  const wanted = intendedElement(id, x, y);
  if (wanted && isForeign(wanted) && x !== null) return insideFrame(wanted, x, y);
  const isRight = active && isTypable(active) && (id === null || (wanted && holds(wanted, active)));
  const field = wanted ? fieldFor(wanted) : null;
  // Pickers are not clicked, because that would open them: the focus has not moved yet.
  if (field && field !== active && (!isRight || kindOf(field) === "picker")) {
    field.focus({ preventScroll: true });
    active = activeElement();
  }
  if (active && isForeign(active)) return insideFrame(active);
  return active && factsOf(active);
}

// Whether an element handles keys by itself, which cannot be seen from outside. If the focus is in
// a shadow root that cannot be read, its host is the active element without being focusable.
const KEY_ROLES = new Set(["textbox", "searchbox", "combobox", "spinbutton", "application"]);
function takesKeys(element) {
  const tag = tagOf(element);
  if (tag === "embed" || tag === "object" || tag === "canvas") return true;
  if (kindOf(element) !== "other" || tag === "body" || tag === "html") return false;
  if (KEY_ROLES.has(attribute(element, "role"))) return hasAttribute(element, "tabindex");
  if (element !== document.activeElement || !isHtml(element) || shadowOf(element)) return false;
  return element.tabIndex < 0 && !hasAttribute(element, "tabindex");
}

// The element with a number or at a point; null if there is none.
function intendedElement(id, x, y) {
  const atPoint = () => (x !== null ? elementAt(new Geometry(), x, y) : null);
  const element = id !== null ? elementNumbered(id) : atPoint();
  return element && isOnPage(element) ? element : null;
}

const isTypable = (element) => isEditable(element, kindOf(element));

// The field that a click on this element is meant for.
function fieldFor(element) {
  const around = nearest(element, (node) => isTypable(node) || controlOf(node) !== null);
  if (around) {
    const host = nearest(around, (node) => kindOf(node) !== "rich" || !isInsideEditable(node));
    return controlOf(around) ?? host ?? around;
  }
  const inside = queryAll(element, "input, textarea, [contenteditable]");
  const isOffered = (field) => isTypable(field) && checkVisibility(field, VISIBILITY_ONLY);
  const fields = Array.from(inside).filter(isOffered);
  return fields.length === 1 ? fields[0] : null;
}

// Select the content of the focused field. Returns whether there is any.
function selectExisting() {
  const active = activeElement();
  if (active && isForeign(active)) return insideFrame(active);
  const kind = active ? kindOf(active) : "other";
  if (kind === "text") {
    active.select();
    return active.value !== "";
  }
  if (kind !== "rich") return false;
  const host = nearest(active, (node) => !isInsideEditable(node)) ?? active;
  const selection = viewOf(ownerDocument(host)).getSelection();
  selection?.selectAllChildren(host);
  return textContent(host).trim() !== "";
}

const pad = (number) => String(number).padStart(2, "0");
const readDate = (text) => {
  const written = /^(\d{4,6})-(\d{1,2})-(\d{1,2})$/.exec(text);
  if (written) return `${written[1]}-${pad(written[2])}-${pad(written[3])}`;
  const shown = /^(\d{1,2})\/(\d{1,2})\/(\d{4})$/.exec(text);
  return shown && `${shown[3]}-${pad(shown[1])}-${pad(shown[2])}`;
};
const readTime = (text) => {
  const written = /^(\d{1,2}):(\d{2})(:\d{2}(?:\.\d{1,3})?)?\s*([ap])?\.?m?\.?$/i.exec(text);
  if (!written) return null;
  let hours = Number(written[1]);
  const half = written[4]?.toLowerCase();
  if (half && (hours < 1 || hours > 12)) return null;
  if (half) hours = (hours % 12) + (half === "p" ? 12 : 0);
  return `${pad(hours)}:${written[2]}${written[3] ?? ""}`;
};

// Each kind of picker: the format of its value, and how other formats are converted.
const PICKERS = {
  date: { form: "YYYY-MM-DD", read: readDate },
  time: { form: "HH:MM", read: readTime },
  "datetime-local": {
    form: "YYYY-MM-DDTHH:MM",
    read: (text) => {
      const [day, ...rest] = text.split(/T|,?\s+/);
      const [date, time] = [readDate(day), readTime(rest.join(" "))];
      return date && time && `${date}T${time}`;
    },
  },
  month: {
    form: "YYYY-MM",
    read: (text) => {
      const written = /^(\d{4})-(\d{1,2})$/.exec(text);
      if (written) return `${written[1]}-${pad(written[2])}`;
      const shown = /^(\d{1,2})\/(\d{4})$/.exec(text);
      return shown && `${shown[2]}-${pad(shown[1])}`;
    },
  },
  week: { form: "YYYY-Www", read: (text) => /^\d{4}-W\d{2}$/i.exec(text)?.[0].toUpperCase() },
  color: {
    form: "#rrggbb",
    read: (text) => {
      const short = /^#([0-9a-f])([0-9a-f])([0-9a-f])$/i.exec(text);
      const full = short ? `#${short.slice(1).map((digit) => digit + digit).join("")}` : text;
      return /^#[0-9a-f]{6}$/i.test(full) ? full.toLowerCase() : null;
    },
  },
  range: { form: "a number", read: (text) => (/^[-+]?\d*\.?\d+$/.test(text) ? text : null) },
};

// Set the value of the focused field as if it was chosen in its picker.
function setSpecialValue(value) {
  const element = activeElement();
  if (!element || !isOnPage(element)) return { problem: "gone" };
  if (isForeign(element)) return insideFrame(element);
  const kind = kindOf(element);
  if (kind !== "picker") return { problem: "kind", kind };
  if (isDisabled(element) || element.readOnly) return { problem: "disabled" };
  const picker = PICKERS[element.type];
  const text = value.trim();
  const canBeEmpty = element.type !== "range" && element.type !== "color";
  const wanted = text === "" && canBeEmpty ? "" : picker.read(text);
  if (typeof wanted !== "string") return expectedForm(element, picker);
  const before = element.value;
  element.value = wanted;
  const isTaken = wanted === "" || element.value !== "";
  if (element.type === "range" ? isOutOfRange(element, wanted) : !isTaken) {
    element.value = before;
    return expectedForm(element, picker);
  }
  if (element.value !== before) announce(element);
  return { value: element.value };
}

function isOutOfRange(range, wanted) {
  const [low, high] = [Number(range.min || 0), Number(range.max || 100)];
  return Number(wanted) < low || Number(wanted) > high;
}

function expectedForm(element, picker) {
  let form = picker.form;
  if (element.type === "range") form += ` from ${element.min || 0} to ${element.max || 100}`;
  return { problem: "form", type: element.type, form };
}

// Dispatch the events that the choice of a person causes.
function announce(element) {
  const view = viewOf(ownerDocument(element));
  element.dispatchEvent(new view.Event("input", { bubbles: true, composed: true }));
  element.dispatchEvent(new view.Event("change", { bubbles: true }));
}
