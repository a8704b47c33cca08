// Frames of another origin. Their documents cannot be read from here: each has its own copy of this
// script, and the server passes between them. Here are the positions of such frames and the numbers
// of the elements in them, which are numbers of this page.

const FOREIGN_FRAMES = 10;
const foreignNumbers = new Map();
let lastForeign = [];

const isForeign = (element) =>
  isFrame(tagOf(element)) && isHtml(element) && frameDocument(element) === null;

// The answer of a function whose target is inside such a frame: the server calls it there.
function insideFrame(frame, x = null, y = null) {
  const spot = { frame: numberOf(frame), x, y };
  if (x === null) return spot;
  const geometry = new Geometry();
  const content = geometry.contentOf(frame, geometry.paneOf(frame));
  spot.x = (x - content.x) / content.scaleX;
  spot.y = (y - content.y) / content.scaleY;
  return spot;
}

// The visible parts of the foreign frames of the last `collect`, in their own coordinates.
function foreignFrames() {
  const geometry = new Geometry();
  const described = (frame) => ({ frame: numberOf(frame), ...visiblePartOf(frame, geometry) });
  return lastForeign.map(described);
}

function visiblePartOf(frame, geometry) {
  const pane = geometry.paneOf(frame);
  if (!pane) return { area: NOWHERE };
  const { x, y, scaleX, scaleY, area } = geometry.contentOf(frame, pane);
  const inside = {
    left: (area.left - x) / scaleX,
    top: (area.top - y) / scaleY,
    right: (area.right - x) / scaleX,
    bottom: (area.bottom - y) / scaleY,
  };
  return { x, y, scaleX, scaleY, area: inside };
}

// Give elements of a foreign frame numbers of this page, in the order of `found`, and take over
// their marks. An element in view that something in front of the frame covers gets none.
function adopt(id, found, marks) {
  const frame = elementNumbered(id);
  if (!frame || !isOnPage(frame)) return found.map(() => null);
  const geometry = new Geometry();
  const content = geometry.contentOf(frame, geometry.paneOf(frame));
  const placed = new Map(
    marks.map((mark) => [mark.id, { ...mark, parts: mark.parts.map(within(content)) }]),
  );
  const numbers = found.map((local) => {
    const mark = placed.get(local);
    const isHit = ([x, y]) => elementAt(geometry, x, y) === frame;
    if (mark && !pointsOf(mark.parts, 9).some(isHit)) return null;
    const key = `${id} ${local}`;
    if (!foreignNumbers.has(key)) foreignNumbers.set(key, ++lastNumber);
    if (mark) lastMarks.push({ ...mark, id: foreignNumbers.get(key) });
    return foreignNumbers.get(key);
  });
  if (found.length) lastMarks = lastMarks.filter((mark) => mark.id !== id);
  lastCollected = performance.now();
  return numbers;
}

const within = ({ x, y, scaleX, scaleY }) => (box) => ({
  left: x + box.left * scaleX,
  top: y + box.top * scaleY,
  right: x + box.right * scaleX,
  bottom: y + box.bottom * scaleY,
});

// Scroll a foreign frame into view; answers with its visible part.
function showFrame(id) {
  const frame = elementNumbered(id);
  if (!frame || !isOnPage(frame)) return { frame: id, area: NOWHERE };
  let part = visiblePartOf(frame, new Geometry());
  if (isEmpty(part.area)) {
    scrollIntoView(frame, { block: "nearest", inline: "nearest", behavior: "instant" });
    part = visiblePartOf(frame, new Geometry());
  }
  return { frame: id, ...part };
}

// The point of the page for a point inside a foreign frame, if a click there reaches the frame.
function placeInFrame(id, x, y) {
  const frame = elementNumbered(id);
  if (!frame || !isOnPage(frame)) return { missing: "gone" };
  const geometry = new Geometry();
  const content = geometry.contentOf(frame, geometry.paneOf(frame));
  const point = { x: content.x + x * content.scaleX, y: content.y + y * content.scaleY };
  const hit = elementAt(geometry, point.x, point.y);
  if (!hit) return { missing: "hidden" };
  return hit === frame ? point : { missing: "covered", by: briefly(hit) };
}
