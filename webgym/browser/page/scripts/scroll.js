// Scrolling an element or the page; the answers say whether something moved, or null for an element
// that is gone.

const scrollLeft = reader(Element, "scrollLeft");
const scrollTop = reader(Element, "scrollTop");
const scrollBy = method(Element, "scrollBy");
const MOST = 0.8;
const STEPS = { up: [0, -1], down: [0, 1], left: [-1, 0], right: [1, 0] };

function scrollElement(id, direction) {
  const element = elementNumbered(id);
  if (!element || !isOnPage(element)) return null;
  const [across, down] = STEPS[direction];
  const scroller = nearest(element, (node) => canScroll(node, down !== 0));
  if (!scroller) return false;
  const [width, height] = [sizeOf(scroller, false), sizeOf(scroller, true)];
  return moved(scroller, across * MOST * width, down * MOST * height);
}

// How far to turn the wheel at a point. In a small area the distance is smaller, so that no content
// is skipped.
function wheelDistance(x, y, direction, defaultDistance) {
  const [across, down] = STEPS[direction];
  const hit = elementAt(new Geometry(), x, y);
  const scroller = hit && nearest(hit, (node) => canMove(node, across, down));
  if (!scroller) return defaultDistance;
  return Math.min(defaultDistance, Math.round(MOST * sizeOf(scroller, down !== 0)));
}

function canMove(element, across, down) {
  if (!canScroll(element, down !== 0)) return false;
  if (down < 0) return scrollTop(element) > 0;
  if (down > 0) return scrollTop(element) + clientHeight(element) < scrollHeight(element) - 1;
  return across !== 0;
}

// Scroll the page, or if it cannot scroll, its largest scrollable area in view.
function scrollPage(amount) {
  const root = document.scrollingElement;
  // In quirks mode a page can scroll although no element reports it.
  if (!root) {
    const before = scrollY;
    window.scrollBy({ top: amount, behavior: "instant" });
    if (scrollY !== before) return true;
  }
  const scroller = root && canScroll(root, true) ? root : largestScroller();
  const middle = scroller ?? elementAt(new Geometry(), innerWidth / 2, innerHeight / 2);
  if (middle && isForeign(middle)) return insideFrame(middle);
  return scroller !== null && moved(scroller, 0, amount);
}

const isPageScroller = (element) => element === ownerDocument(element).scrollingElement;
const sizeOf = (element, down) => {
  const view = viewOf(ownerDocument(element));
  if (isPageScroller(element)) return down ? view.innerHeight : view.innerWidth;
  return down ? clientHeight(element) : clientWidth(element);
};

function canScroll(element, down) {
  const [inner, outer] = down
    ? [scrollHeight(element), clientHeight(element)]
    : [scrollWidth(element), clientWidth(element)];
  if (inner <= outer + 1) return false;
  const style = styleOf(element);
  const overflow = down ? style.overflowY : style.overflowX;
  if (!isPageScroller(element)) return overflow === "auto" || overflow === "scroll";
  const body = documentBody(ownerDocument(element));
  const locked = (value) => value === "hidden" || value === "clip";
  const bodyStyle = body && body !== element ? styleOf(body) : null;
  // The overflow of the body applies to the page only if the root has none.
  if (!bodyStyle || overflow !== "visible") return !locked(overflow);
  return !locked(down ? bodyStyle.overflowY : bodyStyle.overflowX);
}

function moved(scroller, across, down) {
  const before = [scrollLeft(scroller), scrollTop(scroller)];
  scrollBy(scroller, { left: across, top: down, behavior: "instant" });
  const by = [scrollLeft(scroller) - before[0], scrollTop(scroller) - before[1]];
  return Math.abs(by[0]) + Math.abs(by[1]) > 0.5;
}

function largestScroller() {
  const geometry = new Geometry();
  const { right, bottom } = geometry.top.area;
  let best = null;
  let bestSize = 0;
  for (const across of [0.5, 0.2, 0.8]) {
    for (const down of [0.5, 0.2, 0.8]) {
      const hit = elementAt(geometry, right * across, bottom * down);
      const scroller = hit && nearest(hit, (node) => canScroll(node, true));
      if (!scroller || scroller === best) continue;
      const pane = geometry.paneOf(scroller);
      const size = pane ? areaOf(overlap(geometry.place(boundsOf(scroller), pane), pane.area)) : 0;
      if (size > bestSize) [best, bestSize] = [scroller, size];
    }
  }
  return best;
}
