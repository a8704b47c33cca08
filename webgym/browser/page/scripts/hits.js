// What a click at a point hits: the topmost element there, through shadow roots and frames.

const documentAt = method(Document, "elementFromPoint");
const shadowAt = method(ShadowRoot, "elementFromPoint");

function elementAt(geometry, x, y) {
  let pane = geometry.top;
  let scope = document;
  let found = null;
  for (let depth = 0; depth < 64; depth++) {
    const left = (x - pane.x) / pane.scaleX;
    const top = (y - pane.y) / pane.scaleY;
    const check = nodeType(scope) === DOCUMENT ? documentAt : shadowAt;
    const inner = check(scope, left, top);
    if (!inner || inner === found) break;
    found = inner;
    scope = shadowOf(inner);
    if (scope) continue;
    scope = frameDocument(inner);
    pane = scope && geometry.pane(scope);
    if (!pane) break;
  }
  return found;
}

// The control of a label: a click on the label is a click on the control.
const controlOf = (element) =>
  isHtml(element) && tagOf(element) === "label" ? element.control : null;
const INSIDE_LABELS = new Set(["button", "select", "textarea", "input"]);

// Whether the element that was hit passes a click on to another element.
function passesClickTo(hit, element) {
  if (holds(element, hit)) return true;
  if (!INSIDE_LABELS.has(tagOf(element)) || !isHtml(element)) return false;
  const label = nearest(hit, (node) => controlOf(node) === element);
  return label !== null;
}

// Points where an element is likely to be hit: the middle of its boxes first, then further out.
const SPREAD = [
  [0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.25], [0.5, 0.75],
  [0.1, 0.15], [0.9, 0.15], [0.1, 0.85], [0.9, 0.85],
];

function pointsOf(boxes, limit) {
  const ordered = [...boxes].sort((one, other) => areaOf(other) - areaOf(one)).slice(0, 4);
  const points = [];
  for (const [across, down] of SPREAD) {
    for (const { left, top, right, bottom } of ordered) {
      points.push([left + (right - left) * across, top + (bottom - top) * down]);
      if (points.length >= limit) return points;
    }
  }
  return points;
}

const shown = (boxes, clip) =>
  boxes.map((box) => overlap(box, clip)).filter((box) => !isEmpty(box));

// The visible element for another: the label of a hidden checkbox.
const VISIBLE = { visibilityProperty: true, opacityProperty: true };
const HIDDEN_CONTROLS = new Set(["checkbox", "radio", "file"]);
const isHiddenControl = (element) =>
  tagOf(element) === "input" && isHtml(element) && HIDDEN_CONTROLS.has(element.type);
function visibleElementFor(element) {
  if (!isHiddenControl(element)) return element;
  const rect = boundsOf(element);
  const large = rect.width >= 5 && rect.height >= 5;
  if (large && checkVisibility(element, VISIBLE)) return element;
  for (const label of element.labels ?? []) {
    const box = boundsOf(label);
    if (box.width > 1 && box.height > 1 && checkVisibility(label, VISIBLE)) return label;
  }
  return element;
}

// An invisible control in front of a drawn one gets the clicks.
function isVisible(element) {
  if (checkVisibility(element, VISIBLE) || tagOf(element) === "area") return true;
  return isHiddenControl(element) && checkVisibility(element, { visibilityProperty: true });
}
