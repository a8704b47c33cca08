// Overlays such as sticky headers and banners hide parts of the elements below. Those parts are cut
// off, so that boxes are drawn where an element is visible and can be hit.

const OVERLAYS = 20;
const TRIM_MS = 20;

function isOverlay({ position, zIndex }) {
  if (position === "fixed" || position === "sticky") return true;
  return position === "absolute" && zIndex !== "auto";
}

function trimCovered(candidates, { geometry, overlays }) {
  const spent = performance.now() + TRIM_MS;
  for (const overlay of overlays) {
    for (const candidate of candidates) {
      if (performance.now() > spent) return;
      const { element, visibleElement, box } = candidate;
      if (!touches(overlay.box, box) || holds(overlay.element, visibleElement)) continue;
      if (holds(element, overlay.element)) continue;
      const parts = candidate.parts.map((part) => uncoveredPart(part, overlay, geometry));
      candidate.parts = parts;
      candidate.box = parts.reduce(union);
    }
  }
}

// The visible rest of a part, if it is one rectangle. `uncovered` handles fully covered parts.
function uncoveredPart(part, { element, box }, geometry) {
  const hidden = overlap(part, box);
  if (isEmpty(hidden)) return part;
  const rest = { left: part.left, top: part.top, right: part.right, bottom: part.bottom };
  if (hidden.left <= part.left + 1 && hidden.right >= part.right - 1) {
    if (hidden.top <= part.top + 1) rest.top = hidden.bottom;
    else if (hidden.bottom >= part.bottom - 1) rest.bottom = hidden.top;
  } else if (hidden.top <= part.top + 1 && hidden.bottom >= part.bottom - 1) {
    if (hidden.left <= part.left + 1) rest.left = hidden.right;
    else if (hidden.right >= part.right - 1) rest.right = hidden.left;
  }
  if (isEmpty(rest) || areaOf(rest) === areaOf(part)) return part;
  const [x, y] = [(hidden.left + hidden.right) / 2, (hidden.top + hidden.bottom) / 2];
  const hit = elementAt(geometry, x, y);
  return hit && holds(element, hit) ? rest : part;
}
