// The positions of elements in the viewport of the page, across frames and scrolling areas.
//
// A pane is one document: how its coordinates map to those of the page, and its visible part.
// A clip is the part of an element that its ancestors do not cut off: `visible` now, or `reachable`
// by scrolling.

const EVERYWHERE = { left: -1e9, top: -1e9, right: 1e9, bottom: 1e9 };
const NOWHERE = { left: -1e9, top: -1e9, right: -1e9, bottom: -1e9 };

const isEmpty = (box) => box.right - box.left < 1 || box.bottom - box.top < 1;
const areaOf = (box) => Math.max(0, box.right - box.left) * Math.max(0, box.bottom - box.top);
const overlap = (one, other) => ({
  left: Math.max(one.left, other.left),
  top: Math.max(one.top, other.top),
  right: Math.min(one.right, other.right),
  bottom: Math.min(one.bottom, other.bottom),
});
const union = (one, other) => ({
  left: Math.min(one.left, other.left),
  top: Math.min(one.top, other.top),
  right: Math.max(one.right, other.right),
  bottom: Math.max(one.bottom, other.bottom),
});
const touches = (one, other) =>
  one.left < other.right &&
  other.left < one.right &&
  one.top < other.bottom &&
  other.top < one.bottom;

// The open list of a drop-down is above the page, even if the drop-down itself is clipped.
function isInOpenList(element) {
  if (tagOf(element) !== "option" || !isHtml(element)) return false;
  const select = closest(element, "select");
  return select !== null && isDropDown(select);
}

// The visible part of a page that is a frame of another one, if that is known.
let visiblePart = null;

class Geometry {
  constructor() {
    this.clips = new Map();
    this.panes = new Map();
    const whole = { left: 0, top: 0, right: innerWidth, bottom: innerHeight };
    const area = visiblePart ? overlap(whole, visiblePart) : whole;
    this.top = this.newPane(document, 0, 0, 1, 1, area, true);
    this.panes.set(document, this.top);
  }

  newPane(inner, x, y, scaleX, scaleY, area, reachable) {
    const pane = { document: inner, x, y, scaleX, scaleY, area, clip: null, fixed: null };
    const view = viewOf(inner);
    const root = inner.scrollingElement ?? documentRoot(inner);
    const left = x - (view?.scrollX ?? 0) * scaleX;
    const top = y - (view?.scrollY ?? 0) * scaleY;
    const hard = {
      left,
      top,
      right: Math.max(left + (root ? scrollWidth(root) : 0) * scaleX, area.right),
      bottom: Math.max(top + (root ? scrollHeight(root) : 0) * scaleY, area.bottom),
    };
    pane.clip = { visible: area, hard, reachable, positioned: null };
    pane.fixed = { visible: area, hard: area, reachable, positioned: null };
    pane.clip.positioned = pane.clip;
    pane.fixed.positioned = pane.fixed;
    return pane;
  }

  // The pane of a document; null if its frame is gone.
  pane(inner) {
    let pane = this.panes.get(inner);
    if (pane !== undefined) return pane;
    const frame = frameOf(inner);
    const outer = frame ? this.pane(ownerDocument(frame)) : null;
    pane = outer ? this.framePane(inner, frame, outer) : null;
    this.panes.set(inner, pane);
    return pane;
  }

  framePane(inner, frame, outer) {
    const { x, y, scaleX, scaleY, area, reachable } = this.contentOf(frame, outer);
    return this.newPane(inner, x, y, scaleX, scaleY, area, reachable);
  }

  // How the coordinates inside a frame map to those of the page, and what is visible of it.
  contentOf(frame, outer) {
    const box = this.place(boundsOf(frame), outer);
    const style = styleOf(frame);
    const padding = ["Left", "Top", "Right", "Bottom"].map(
      (side) => parseFloat(style[`padding${side}`]) || 0,
    );
    const scaleX = (box.right - box.left) / (offsetWidth(frame) || 1) || outer.scaleX;
    const scaleY = (box.bottom - box.top) / (offsetHeight(frame) || 1) || outer.scaleY;
    const x = box.left + (frame.clientLeft + padding[0]) * scaleX;
    const y = box.top + (frame.clientTop + padding[1]) * scaleY;
    const content = {
      left: x,
      top: y,
      right: x + (clientWidth(frame) - padding[0] - padding[2]) * scaleX,
      bottom: y + (clientHeight(frame) - padding[1] - padding[3]) * scaleY,
    };
    const clip = this.clipOf(frame, outer);
    const reachable = clip.reachable && !isEmpty(overlap(content, clip.hard));
    const seen = overlap(overlap(content, clip.visible), outer.area);
    return { x, y, scaleX, scaleY, area: isEmpty(seen) ? NOWHERE : seen, reachable };
  }

  paneOf(element) {
    return this.pane(ownerDocument(element));
  }

  place(rect, pane) {
    if (pane === this.top) return rect;
    return {
      left: pane.x + rect.left * pane.scaleX,
      top: pane.y + rect.top * pane.scaleY,
      right: pane.x + rect.right * pane.scaleX,
      bottom: pane.y + rect.bottom * pane.scaleY,
    };
  }

  // The part of an element that its ancestors do not cut off.
  clipOf(element, pane) {
    if (isInOpenList(element)) return pane.fixed;
    const parent = flatParent(element);
    return this.clipAt(parent ? this.clipInside(parent, pane) : pane.clip, styleOf(element), pane);
  }

  clipAt(outer, style, pane) {
    const position = style.position;
    if (position === "fixed") return pane.fixed;
    return position === "absolute" ? outer.positioned : outer;
  }

  // The clip for the children of an element. A loop, since pages may nest very deeply.
  clipInside(element, pane) {
    const chain = [];
    let node = element;
    while (node && !this.clips.has(node)) {
      chain.push(node);
      node = flatParent(node);
    }
    let clip = node ? this.clips.get(node) : pane.clip;
    for (let index = chain.length - 1; index >= 0; index--) {
      clip = this.narrowed(clip, chain[index], pane);
      this.clips.set(chain[index], clip);
    }
    return clip;
  }

  narrowed(outer, element, pane) {
    const style = styleOf(element);
    const own = this.clipAt(outer, style, pane);
    const overflow = style.overflowY;
    const isPositioned = style.position !== "static";
    const tag = tagOf(element);
    let clip = own;
    const isRoot = tag === "html" || tag === "body";
    if (overflow !== "visible" && !isRoot && style.display !== "contents") {
      const box = this.place(boundsOf(element), pane);
      const visible = overlap(own.visible, box);
      if (overflow === "auto" || overflow === "scroll") {
        const reachable = own.reachable && !isEmpty(overlap(own.hard, box));
        clip = { visible, hard: EVERYWHERE, reachable, positioned: own.positioned };
      } else {
        clip = {
          visible,
          hard: overlap(own.hard, box),
          reachable: own.reachable,
          positioned: own.positioned,
        };
      }
    }
    if (isPositioned) {
      clip = clip === own ? { ...own } : clip;
      clip.positioned = clip;
    }
    return clip;
  }

  // The boxes of an element, unclipped: one for each line of a link in running text, and those of
  // the pictures and blocks inside an element without a box.
  parts(element, pane, style) {
    const tag = tagOf(element);
    if (tag === "area") return this.areaParts(element, pane);
    const display = style.display;
    if (display !== "inline" && display !== "contents") {
      return this.placed([boundsOf(element)], pane);
    }
    const rects = Array.from(clientRects(element)).slice(0, 12);
    let child = firstElement(element);
    for (let count = 0; child && count < 8; count++, child = nextElement(child)) {
      const rect = boundsOf(child);
      const covered = rects.some((line) => line.top <= rect.top && line.bottom >= rect.bottom);
      if (!covered) rects.push(rect);
    }
    return this.placed(rects, pane);
  }

  placed(rects, pane) {
    const solid = rects.filter((rect) => rect.width > 0 && rect.height > 0);
    return solid.map((rect) => this.place(rect, pane));
  }

  areaParts(area, pane) {
    const map = parentNode(area);
    const name = map && map.name;
    const image = name && rootNode(area).querySelector(`img[usemap="#${CSS.escape(name)}"]`);
    if (!image) return [];
    const rect = boundsOf(image);
    const at = (attribute(area, "coords") ?? "").split(",").map(Number);
    if (attribute(area, "shape") === "circle") {
      const [x, y, radius] = at;
      at.splice(0, 3, x - radius, y - radius, x + radius, y + radius);
    }
    const across = at.filter((_, index) => index % 2 === 0);
    const down = at.filter((_, index) => index % 2 === 1);
    if (!across.length || !down.length || at.some(Number.isNaN)) return this.placed([rect], pane);
    const left = rect.left + Math.min(...across);
    const top = rect.top + Math.min(...down);
    const right = rect.left + Math.max(...across);
    const bottom = rect.top + Math.max(...down);
    return this.placed([new DOMRect(left, top, right - left, bottom - top)], pane);
  }
}
