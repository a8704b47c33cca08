// One walk over the page that finds interactive elements.
//
// Declared elements (links, fields, roles, tab stops) are found by one selector, and those that
// listen for clicks are known. Elements that only look interactive (by their cursor), canvases
// that something listens for, and scrolling areas are found by style, but only in view,
// because reading boxes and styles is expensive. Parts of the page that are out of view are walked
// without reading them, and skipped once enough elements out of view are known.

const OUT_OF_VIEW = 100;
const BUDGET_MS = 250;
const LATE_READS = 1000;
const TEXTS = 500;
const LONG_TEXT = 5000;
const ICONS = "i:empty, svg, img, span:empty, div:empty";
const AREA_WITH_ICONS = 4000;
const LIST_HEIGHT = 40;
const ICON = 64;
const PARTS = 50;
const LISTENERS_READ = 500;

const shadowQuery = method(DocumentFragment, "querySelectorAll");
const documentQuery = method(Document, "querySelectorAll");
const queryRoot = (root, selector) =>
  nodeType(root) === DOCUMENT ? documentQuery(root, selector) : shadowQuery(root, selector);

class Survey {
  constructor() {
    this.geometry = new Geometry();
    this.area = this.geometry.top.area;
    this.candidates = [];
    this.byElement = new Map();
    this.texts = [];
    this.overlays = [];
    this.foreign = [];
    this.listening = listenersByRoot();
    this.levels = [];
    this.outside = 0;
    this.fullOverlay = undefined;
    this.visits = 0;
    this.late = false;
    this.deadline = performance.now() + BUDGET_MS;
  }

  // A level is a document or shadow root on the walk.
  run() {
    this.enter(document, this.geometry.top, false);
    while (this.levels.length) {
      const level = this.levels[this.levels.length - 1];
      const element = this.isLate() ? null : nextIn(level);
      if (element) this.visit(element, level);
      else {
        this.levels.pop();
        this.visitSkipped(level);
      }
    }
    return this.candidates;
  }

  isLate() {
    if ((++this.visits & 511) === 0 && performance.now() > this.deadline) this.late = true;
    return this.late;
  }

  isFull() {
    return this.outside >= OUT_OF_VIEW;
  }

  enter(root, pane, declaredOnly) {
    const walker = pane.document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT);
    const declared = new Set(queryRoot(root, INTERACTIVE_SELECTOR));
    const heard = [...(this.listening.get(root) ?? []), ...queryRoot(root, LISTENER_ATTRIBUTES)];
    this.listening.set(root, heard);
    for (const element of heard) {
      listening.add(element);
      declared.add(element);
    }
    const body = nodeType(root) === DOCUMENT ? documentBody(root) : null;
    if (body && isWritable(body, "body")) declared.add(body);
    const marks = { skip: false, covered: null, away: null };
    this.levels.push({ walker, pane, declared, declaredOnly, ...marks });
  }

  visit(element, level) {
    const tag = tagOf(element);
    const declared = level.declared.delete(element) && isInteractive(element, tag);
    if (NEVER_SHOWN.has(tag)) level.skip = true;
    else this.examine(element, tag, level, declared);
    if (!level.skip) this.enterInner(element, tag, level);
  }

  examine(element, tag, level, declared) {
    if (declared && this.listensForParts(element, tag, level)) declared = false;
    if (declared) {
      const found = this.consider(element, tag, level.pane);
      if (found && found.strength !== "weak") {
        level.covered = element;
        return;
      }
    }
    if (level.declaredOnly || isInside(element, level.covered)) return;
    if (!isInside(element, level.away)) this.check(element, tag, level, declared);
    else if (this.isFull()) level.skip = true;
  }

  // A list that listens for its entries, or a drawing for its shapes: each part is a candidate.
  listensForParts(element, tag, level) {
    if (!isUsed(element, tag) || strengthOf(element, tag) !== "weak") return false;
    const isDrawing = tag === "svg";
    if (!isDrawing && (hasOwnRole(element) || !isListLike(element))) return false;
    const parts = isDrawing ? Array.from(queryAll(element, SHAPES)) : childrenOf(element);
    const pane = level.pane;
    for (const part of parts.slice(0, PARTS)) {
      if (!this.byElement.has(part)) this.add(part, tagOf(part), part, pane, "weak", null);
    }
    return parts.length > 0;
  }

  // Read box and style of an element that is not declared as interactive.
  check(element, tag, level, declared) {
    const { pane } = level;
    const box = this.geometry.place(boundsOf(element), pane);
    if (box.right <= box.left || box.bottom <= box.top) {
      if (!checkVisibility(element)) level.skip = true;
      return;
    }
    if (!touches(box, pane.area)) {
      if (!isAway(element, tag, box, pane)) return;
      if (this.isFull()) level.skip = true;
      else level.away = element;
      return;
    }
    const isSmall = box.right - box.left <= ICON && box.bottom - box.top <= ICON;
    if (tag === "svg" && isSmall) level.covered = element;
    if (this.texts.length < TEXTS) this.noteText(element, pane);
    const style = styleOf(element);
    if (isOverlay(style) && this.overlays.length < OVERLAYS) this.overlays.push({ element, box });
    if (style.overflowY !== "visible") this.considerScrolling(element, tag, box, style, pane);
    if (tag === "canvas" && !declared && isCanvasUsed(element, style)) {
      this.add(element, tag, element, pane, "weak", style);
      return;
    }
    if (tag === "html") return;
    if (declared) {
      this.coverParts(element, box, style, level);
      return;
    }
    if (style.cursor !== "pointer") {
      const isLarge = areaOf(overlap(box, this.area)) > areaOf(this.area) / 2;
      if (isHandle(element, style) && !isLarge) this.add(element, tag, element, pane, "weak", style);
      return;
    }
    if (this.splits(element, box)) return;
    level.covered = element;
    if (box.right - box.left < 6 || box.bottom - box.top < 6) return;
    const label = closest(element, "label");
    if (label && controlOf(label)) return;
    this.add(element, tag, element, pane, "weak", style);
    if (areaOf(box) > AREA_WITH_ICONS) this.addIcons(element, pane);
  }

  // The pointer cursor of an element that is declared is that of all its parts: a row has cells.
  coverParts(element, box, style, level) {
    if (style.cursor !== "pointer" || this.splits(element, box)) return;
    level.covered = element;
    if (areaOf(box) > AREA_WITH_ICONS) this.addIcons(element, level.pane);
  }

  // A pointer cursor over a whole list, or half of the page, refers to its entries.
  splits(element, box) {
    if (!firstElement(element)) return false;
    if (areaOf(overlap(box, this.area)) > areaOf(this.area) / 2) return true;
    if (!listening.has(element) && this.holdsListeners(element)) return true;
    return box.bottom - box.top >= LIST_HEIGHT && isListLike(element);
  }

  // Whether several elements inside another listen for clicks, each for itself.
  holdsListeners(element) {
    const inside = (this.listening.get(rootNode(element)) ?? []).slice(0, LISTENERS_READ);
    return inside.filter((each) => each !== element && contains(element, each)).length > 1;
  }

  // A clickable row may contain icons with other actions: a star, a bin.
  addIcons(element, pane) {
    for (const icon of Array.from(queryAll(element, ICONS)).slice(0, 12)) {
      const { width, height } = boundsOf(icon);
      const isSmall = width >= 8 && height >= 8 && width <= 48 && height <= 48;
      if (isSmall && !this.byElement.has(icon) && styleOf(icon).cursor === "pointer") {
        this.add(icon, tagOf(icon), icon, pane, "weak", null);
      }
    }
  }

  // Remember where text is, so that marks do not cover it.
  noteText(element, pane) {
    let child = firstChild(element);
    for (let count = 0; child && count < 12; count++, child = nextSibling(child)) {
      if (nodeType(child) !== TEXT || !/\S/.test(child.data)) continue;
      const range = pane.document.createRange();
      range.selectNodeContents(child);
      const isLong = child.length > LONG_TEXT;
      for (const rect of isLong ? [range.getBoundingClientRect()] : range.getClientRects()) {
        const line = this.geometry.place(rect, pane);
        if (touches(line, pane.area)) this.texts.push(overlap(line, pane.area));
      }
    }
  }

  enterInner(element, tag, level) {
    const shadow = shadowOf(element);
    if (!shadow && !(isFrame(tag) && isHtml(element))) return;
    if (this.levels.length > 64) return;
    if (shadow) {
      const { declaredOnly, covered, away } = level;
      const quietly = declaredOnly || isInside(element, covered) || isInside(element, away);
      this.enter(shadow, level.pane, quietly);
      return;
    }
    const inner = frameDocument(element);
    const pane = inner && this.geometry.pane(inner);
    if (!pane) this.considerFrame(element, tag, level.pane);
    else if (!isEmpty(pane.area)) this.enter(inner, pane, false);
    else if (pane.clip.reachable && !this.isFull()) this.enter(inner, pane, false);
  }

  // A frame that cannot be read from here is listed itself, and what is inside it is adopted.
  considerFrame(element, tag, pane) {
    const box = this.geometry.place(boundsOf(element), pane);
    const isLarge = box.right - box.left >= 30 && box.bottom - box.top >= 20;
    if (!isLarge || !touches(box, pane.area)) return;
    const candidate = this.add(element, tag, element, pane, "weak", styleOf(element));
    if (candidate && this.foreign.length < FOREIGN_FRAMES) this.foreign.push(element);
  }

  considerScrolling(element, tag, box, style, pane) {
    if (tag === "html" || tag === "body" || tag === "textarea" || tag === "select") return;
    if (box.right - box.left < 40 || box.bottom - box.top < 40) return;
    if (!scrollsBy(element, style)) return;
    const known = this.byElement.get(element);
    const candidate = known ?? this.add(element, tag, element, pane, "scrolls", style);
    if (!candidate) return;
    candidate.scrollable = true;
    const isStop = candidate.strength === "weak" && !hasAttribute(element, "onclick");
    if (isStop) candidate.scrolls = true;
  }

  // Declared elements inside skipped parts. Some of them may be fixed to the viewport.
  visitSkipped(level) {
    const { pane } = level;
    let reads = 0;
    for (const element of level.declared) {
      if (reads++ >= LATE_READS || performance.now() > this.deadline + BUDGET_MS) break;
      const isSeen = () => touches(this.geometry.place(boundsOf(element), pane), pane.area);
      if (this.isFull() && !isSeen()) continue;
      const tag = tagOf(element);
      if (isInteractive(element, tag)) this.consider(element, tag, pane);
    }
  }

  consider(element, tag, pane) {
    if (this.byElement.has(element)) return null;
    const strength = strengthOf(element, tag);
    if (strength === "control" && !CONTROLS.has(tag) && isInsideEditable(element)) return null;
    const candidate = this.add(element, tag, visibleElementFor(element), pane, strength, null);
    if (candidate && tag === "select" && isHtml(element)) this.addOptions(element, pane);
    return candidate;
  }

  addOptions(select, pane) {
    if (isDropDown(select) && !isOpen(select)) return;
    for (const option of Array.from(select.options).slice(0, 100)) {
      this.add(option, "option", option, pane, "strong", null);
    }
  }

  // Add an element, unless no part of it is visible or can be scrolled into view.
  add(element, tag, visibleElement, pane, strength, style) {
    const parts = this.partsOf(visibleElement, pane, style);
    if (!parts.length) return null;
    const clip = this.geometry.clipOf(visibleElement, pane);
    const visible = shown(parts, overlap(clip.visible, pane.area));
    const inView = visible.length > 0;
    if (!inView && !this.isReachable(visibleElement, parts, clip)) return null;
    if (!isVisible(visibleElement)) return null;
    const boxes = inView ? visible : parts;
    const box = boxes.reduce(union);
    if (box.right - box.left < 2 || box.bottom - box.top < 2) return null;
    const candidate = {
      element, tag, visibleElement, strength, inView, box,
      parts: boxes,
      size: areaOf(parts.reduce(union)),
      scrolls: strength === "scrolls",
      scrollable: false,
      dropped: false,
      parent: null,
    };
    if (!inView) this.outside++;
    this.candidates.push(candidate);
    this.byElement.set(element, candidate);
    return candidate;
  }

  // For a box out of view the style is not read: on a long page that is most of them.
  partsOf(element, pane, style) {
    const rect = boundsOf(element);
    if (!style && rect.width > 0 && rect.height > 0) {
      const box = this.geometry.place(rect, pane);
      if (!touches(box, pane.area)) return [box];
    }
    return this.geometry.parts(element, pane, style ?? styleOf(element));
  }

  isReachable(element, parts, clip) {
    if (this.isFull() || !clip.reachable) return false;
    if (!parts.some((part) => !isEmpty(overlap(part, clip.hard)))) return false;
    if (closest(element, '[aria-hidden="true"], [inert]')) return false;
    if (this.fullOverlay === undefined) this.fullOverlay = fullOverlays(this.geometry);
    return this.fullOverlay === null || this.fullOverlay.some((overlay) => holds(overlay, element));
  }
}

const OWN_SIGNS = ["role", "onclick", "tabindex"];
const hasOwnRole = (element) => OWN_SIGNS.some((name) => hasAttribute(element, name));

function childrenOf(element) {
  const children = [];
  for (let child = firstElement(element); child; child = nextElement(child)) children.push(child);
  return children;
}

// A canvas is drawn by scripts: whether it can be used shows only by what listens for it.
function isCanvasUsed(canvas, { cursor }) {
  if (cursor !== "auto" && cursor !== "default") return true;
  let node = flatParent(canvas);
  for (let depth = 0; node && depth < 3; depth++, node = flatParent(node)) {
    if (isUsed(node, tagOf(node))) return true;
  }
  return false;
}

const isInside = (element, outer) => outer !== null && contains(outer, element);

function nextIn(level) {
  const { walker } = level;
  if (!level.skip) return walker.nextNode();
  level.skip = false;
  do {
    if (walker.nextSibling()) return walker.currentNode;
  } while (walker.parentNode() && walker.currentNode !== walker.root);
  return null;
}

// Whether an element and its overflow is out of view. Content overflows to the right and down, so
// only elements above or to the left need a second check.
function isAway(element, tag, box, pane) {
  if (tag === "html" || tag === "body") return false;
  if (box.top >= pane.area.bottom || box.left >= pane.area.right) return true;
  const right = Math.max(box.right, box.left + scrollWidth(element) * pane.scaleX);
  const bottom = Math.max(box.bottom, box.top + scrollHeight(element) * pane.scaleY);
  return !touches({ left: box.left, top: box.top, right, bottom }, pane.area);
}

const MIDDLE_AND_CORNERS = [[0.5, 0.5], [0.01, 0.01], [0.99, 0.01], [0.01, 0.99], [0.99, 0.99]];

// The overlay over the whole viewport, such as a dialog with its backdrop, or null. Nothing outside
// of it can be scrolled into view.
function fullOverlays(geometry) {
  const { right, bottom } = geometry.top.area;
  const fullOverlay = new Set();
  for (const [across, down] of MIDDLE_AND_CORNERS) {
    let fixed = null;
    let node = elementAt(geometry, right * across, bottom * down);
    for (; node; node = outerParent(node)) if (styleOf(node).position === "fixed") fixed = node;
    if (!fixed) return null;
    fullOverlay.add(fixed);
  }
  return Array.from(fullOverlay);
}
