// The list of interactive elements, without covered elements and duplicates.

const LISTED = 500;
const HIT_TESTS_MS = 20;
const STRIDE = 7;
const ALL_OPTIONS = 3000;

const FRESH_MS = 1000;

let lastMarks = [];
let lastTexts = [];
let lastCollected = -Infinity;

function collect(area) {
  visiblePart = area ?? null;
  const survey = new Survey();
  const candidates = survey.run();
  mergeNested(candidates, survey.byElement);
  dropContainers(candidates);
  const kept = candidates.filter((candidate) => !candidate.dropped);
  const seen = kept.filter((candidate) => candidate.inView);
  trimCovered(seen, survey);
  const inView = uncovered(seen, survey);
  const others = kept.filter((candidate) => !candidate.inView);
  const listed = [...inView, ...others].slice(0, LISTED);
  listed.forEach((candidate) => numberOf(candidate.element));
  const focused = activeElement();
  const budget = { options: ALL_OPTIONS };
  lastMarks = listed.filter((candidate) => candidate.inView).map(markOf);
  lastTexts = survey.texts;
  lastForeign = survey.foreign;
  lastCollected = performance.now();
  return listed.map((candidate) => describe(candidate, focused, budget));
}

function markOf({ element, parts, scrolls }) {
  return { id: numberOf(element), parts, scrolls, above: isInOpenList(element) };
}

// Leave out elements that cannot be hit at any of several points: a dialog hides what lies below.
//
// On a huge page one hit test takes a millisecond. When the time for it is used up, only elements
// near something that covers others are still tested.
function uncovered(candidates, survey) {
  const { geometry, area, deadline } = survey;
  const spent = performance.now() + HIT_TESTS_MS;
  const covers = new Map();
  const isHit = (candidate) => {
    const { box } = candidate;
    const isFree = () => !Array.from(covers.values()).some((cover) => touches(cover, box));
    if (performance.now() > spent && isFree()) return true;
    for (const [x, y] of pointsOf(shown(candidate.parts, area), 9)) {
      if (performance.now() > deadline + 2 * BUDGET_MS) return true;
      const hit = elementAt(geometry, x, y);
      if (hit && passesClickTo(hit, candidate.element)) return true;
      if (hit && !covers.has(hit)) noteCover(hit, geometry, covers);
    }
    return false;
  };
  const hit = new Set(spread(candidates).filter(isHit));
  return candidates.filter((candidate) => hit.has(candidate));
}

// The whole covering element: a dialog rather than the line of its text that was hit.
function noteCover(hit, geometry, covers) {
  let cover = hit;
  for (let node = hit; node; node = outerParent(node)) {
    const { position } = styleOf(node);
    if (position === "fixed" || position === "absolute" || position === "sticky") cover = node;
  }
  const pane = geometry.paneOf(cover);
  if (pane) covers.set(hit, geometry.place(boundsOf(cover), pane));
}

// The same candidates in an order that reaches all parts of the page early.
function spread(candidates) {
  const order = [];
  for (let start = 0; start < STRIDE; start++) {
    for (let index = start; index < candidates.length; index += STRIDE) {
      order.push(candidates[index]);
    }
  }
  return order;
}

// One mark for what a person sees as one element: a link around a button, a card around its link.
function mergeNested(candidates, byElement) {
  const parents = new Map();
  for (const candidate of candidates) candidate.parent = parentOf(candidate, byElement, parents);
  for (let index = candidates.length - 1; index >= 0; index--) mergeInto(candidates[index]);
}

// The nearest candidate around another. `known` caches it for every element on the way.
function parentOf(candidate, byElement, known) {
  const { element, visibleElement } = candidate;
  const passed = [];
  let found = null;
  let node = visibleElement === element ? outerParent(element) : visibleElement;
  for (; node; node = outerParent(node)) {
    if (known.has(node)) {
      found = known.get(node);
      break;
    }
    passed.push(node);
    const at = byElement.get(node);
    if (at && at !== candidate && !at.scrolls) {
      found = at;
      break;
    }
  }
  for (const each of passed) known.set(each, found);
  return found === candidate ? null : found;
}

function mergeInto(candidate) {
  let parent = candidate.parent;
  while (parent && parent.dropped) parent = parent.parent;
  if (!parent || candidate.scrolls || candidate.dropped) return;
  const { visibleElement } = candidate;
  if (parent.element === visibleElement || parent.visibleElement === visibleElement) {
    parent.dropped = true;
    return;
  }
  if (candidate.tag === "option") return;
  const same = candidate.size > 0.6 * parent.size || sameText(candidate, parent);
  if (parent.strength === "weak") {
    const isPiece = candidate.strength === "weak" && candidate.size > 0.25 * parent.size;
    if (isEntry(candidate, parent)) parent.dropped = true;
    else if (isPiece && listening.has(parent.element) && !hasOwnHandler(candidate.element)) {
      candidate.dropped = true;
    } else if (same || parent.size > pageSize() / 2) parent.dropped = true;
  } else if (candidate.strength === "control") {
    if (same || parent.tag === "label") parent.dropped = true;
  } else if (candidate.strength === "weak") {
    candidate.dropped = same || !hasOwnHandler(candidate.element);
  } else if (parent.strength !== "control") candidate.dropped = same;
}

// Whether an element listens for one inside it, which shows that it is the one to click.
function isEntry({ element, strength }, parent) {
  if (strength !== "weak" || hasOwnHandler(element) || !onlyListens(parent)) return false;
  return styleOf(element).cursor === "pointer";
}

const pageSize = () => innerWidth * innerHeight;

// An element that listens for several elements inside it, or for the page, is not one to use.
function dropContainers(candidates) {
  const inside = new Map();
  for (const candidate of candidates) {
    if (candidate.dropped) continue;
    for (let { parent } = candidate; parent; ({ parent } = parent)) {
      inside.set(parent, (inside.get(parent) ?? 0) + 1);
    }
  }
  for (const candidate of candidates) {
    const isMany = (inside.get(candidate) ?? 0) > 1 || candidate.size > pageSize() / 2;
    const isRegion = candidate.tag === "canvas" || candidate.tag === "svg";
    if (isMany && !isRegion && onlyListens(candidate)) candidate.dropped = true;
    if (candidate.tag === "svg" && (inside.get(candidate) ?? 0) > 1) candidate.dropped = true;
  }
}

function hasOwnHandler(element) {
  if (listening.has(element) || isDraggable(element)) return true;
  return hasAttribute(element, "onclick") || hasAttribute(element, "tabindex");
}

function sameText(candidate, parent) {
  if (candidate.strength === "control") return false;
  const inner = readText(candidate.element, TEXT_LIMIT, true);
  return inner !== "" && inner === readText(parent.element, TEXT_LIMIT, true);
}
