// Numbered boxes over the elements in view, for one screenshot.
//
// They are painted on a canvas in a closed shadow root: styles and content policy of the page do
// not affect it, and nothing of the page moves. As a popover it is above everything, also dialogs.

const COLOURS = [
  "#d6002f", "#0050d8", "#00752a", "#8a2be2", "#b34700", "#007a87", "#c2007a", "#4d5b00",
];
const NEAR = 60;
const TAG_HEIGHT = 15;
const DIGIT_WIDTH = 7;
const HOST = "page-marks";

let marksHost = null;
let marksBrush = null;

// Draw the marks of the last `collect`, or collect now.
function drawMarks() {
  eraseMarks();
  const root = documentRoot(document);
  if (!root) return;
  if (performance.now() - lastCollected > FRESH_MS) collect();
  const host = document.createElementNS("http://www.w3.org/1999/xhtml", HOST);
  try {
    const shadow = host.attachShadow({ mode: "closed" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(":host::backdrop { display: none !important; }");
    shadow.adoptedStyleSheets = [sheet];
    shadow.append(paintMarks(placeMarks(lastMarks)));
    styleHost(host);
    marksHost = host;
    root.append(host);
    raise(host);
  } catch (error) {
    eraseMarks();
    throw error;
  }
}

function eraseMarks() {
  marksHost?.remove();
  marksHost = null;
}

// Above dialogs if the document allows it, else above everything with a z-index.
function raise(host) {
  try {
    host.popover = "manual";
    host.showPopover();
  } catch (error) {
    if (!(error instanceof DOMException || error instanceof TypeError)) throw error;
    host.removeAttribute("popover");
  }
}

function styleHost(host) {
  const looks = {
    all: "initial", position: "fixed", inset: "0", display: "block", width: "100vw",
    height: "100vh", margin: "0", padding: "0", border: "0", overflow: "hidden",
    background: "transparent", "pointer-events": "none", "z-index": "2147483647",
  };
  for (const [name, value] of Object.entries(looks)) {
    host.style.setProperty(name, value, "important");
  }
}

function paintMarks(marks) {
  const context2d = cleanCanvas();
  for (const mark of marks) if (!mark.above) paintOutline(context2d, mark);
  for (const mark of marks) if (mark.above) paintOutline(context2d, mark);
  for (const mark of marks) paintTag(context2d, mark);
  return context2d.canvas;
}

// One canvas for all screenshots of a document: creating one costs more than painting on it.
function cleanCanvas() {
  const scale = devicePixelRatio || 1;
  const [width, height] = [Math.round(innerWidth * scale), Math.round(innerHeight * scale)];
  if (marksBrush?.canvas.width !== width || marksBrush.canvas.height !== height) {
    const canvas = document.createElementNS("http://www.w3.org/1999/xhtml", "canvas");
    [canvas.width, canvas.height] = [width, height];
    canvas.style.cssText = `display: block; width: ${innerWidth}px; height: ${innerHeight}px`;
    marksBrush = canvas.getContext("2d");
  }
  marksBrush.setTransform(scale, 0, 0, scale, 0, 0);
  marksBrush.clearRect(0, 0, innerWidth, innerHeight);
  marksBrush.font = "bold 12px Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";
  marksBrush.textAlign = "center";
  marksBrush.textBaseline = "middle";
  return marksBrush;
}

function paintOutline(context2d, { boxes, colour, scrolls, above }) {
  for (const box of boxes) {
    const width = box.right - box.left;
    const height = box.bottom - box.top;
    if (above) context2d.clearRect(box.left, box.top, width, height);
    context2d.setLineDash(scrolls ? [6, 4] : []);
    context2d.lineWidth = 3;
    context2d.strokeStyle = "rgba(255, 255, 255, 0.55)";
    context2d.strokeRect(box.left + 0.5, box.top + 0.5, width - 1, height - 1);
    context2d.lineWidth = 1.5;
    context2d.strokeStyle = colour;
    context2d.strokeRect(box.left + 0.5, box.top + 0.5, width - 1, height - 1);
  }
}

function paintTag(context2d, { id, tag, colour }) {
  const width = tag.right - tag.left;
  context2d.setLineDash([]);
  context2d.fillStyle = colour;
  context2d.beginPath();
  context2d.roundRect(tag.left, tag.top, width, TAG_HEIGHT, 2);
  context2d.fill();
  context2d.lineWidth = 1;
  context2d.strokeStyle = "rgba(255, 255, 255, 0.85)";
  context2d.stroke();
  context2d.fillStyle = "#fff";
  context2d.fillText(String(id), tag.left + width / 2, tag.top + TAG_HEIGHT / 2 + 1);
}

const enlarged = ({ left, top, right, bottom }, by) => ({
  left: left - by,
  top: top - by,
  right: right + by,
  bottom: bottom + by,
});

// Give every mark its visible boxes, a colour that its neighbours do not have, and a tag position.
function placeMarks(elements) {
  const view = { left: 0, top: 0, right: innerWidth, bottom: innerHeight };
  const marks = [];
  for (const { id, parts, scrolls, above } of elements) {
    const seen = shown(parts, view).slice(0, 4);
    if (!seen.length) continue;
    const boxes = seen.map((box) => overlap(enlarged(box, 1), view));
    marks.push({ id, boxes, scrolls, above, box: seen.reduce(union), colour: "", tag: null });
  }
  const small = [...marks].sort((one, other) => areaOf(one.box) - areaOf(other.box));
  const tags = [];
  for (const mark of small) {
    mark.tag = placeTag(mark, marks, tags, view);
    tags.push(mark.tag);
  }
  marks.forEach((mark, index) => {
    mark.colour = colourFor(mark, marks.slice(Math.max(0, index - 40), index), index);
  });
  return marks;
}

function colourFor(mark, before, index) {
  const reach = enlarged(mark.box, NEAR);
  const taken = new Map(COLOURS.map((colour) => [colour, 0]));
  before.forEach(({ box, tag, colour }, age) => {
    const isNear = touches(reach, box) || touches(reach, tag);
    if (isNear) taken.set(colour, taken.get(colour) + 10 + age);
  });
  const turned = COLOURS.map((_, step) => COLOURS[(index + step) % COLOURS.length]);
  return turned.reduce((best, colour) => (taken.get(colour) < taken.get(best) ? colour : best));
}

// The position where a tag hides least: outside of its box if possible, never on another tag.
function placeTag(mark, marks, tags, view) {
  const first = mark.boxes[0];
  const last = mark.boxes[mark.boxes.length - 1];
  const width = DIGIT_WIDTH * String(mark.id).length + 6;
  const roomy = first.right - first.left > 4 * width && first.bottom - first.top > 2.5 * TAG_HEIGHT;
  const places = [
    [first.left, first.top - TAG_HEIGHT, 0],
    [first.right - width, first.top - TAG_HEIGHT, 1],
    [last.right, last.top, 2],
    [first.left - width, first.top, 2],
    [last.left, last.bottom, 2],
    [last.right - width, last.bottom, 3],
    [first.left - width, first.top + (first.bottom - first.top - TAG_HEIGHT) / 2, 2],
    [last.right, last.top + (last.bottom - last.top - TAG_HEIGHT) / 2, 2],
    [first.right - width, first.top, roomy ? 3 : 35],
    [first.left, first.top, roomy ? 6 : 40],
    [last.right - width, last.bottom - TAG_HEIGHT, roomy ? 5 : 45],
  ];
  let best = null;
  let least = Infinity;
  for (const [x, y, cost] of places) {
    const left = Math.min(Math.max(x, view.left), view.right - width);
    const top = Math.min(Math.max(y, view.top), view.bottom - TAG_HEIGHT);
    const tag = { left, top, right: left + width, bottom: top + TAG_HEIGHT };
    let total = cost + (Math.abs(left - x) + Math.abs(top - y)) * 2;
    if (total >= least) continue;
    for (const other of tags) if (touches(tag, other)) total += 4 * areaOf(overlap(tag, other));
    if (total >= least) continue;
    for (const text of lastTexts) {
      if (touches(tag, text)) total += 0.3 * areaOf(overlap(tag, text));
    }
    for (const other of marks) {
      if (other === mark || !touches(tag, other.box)) continue;
      total += areaOf(overlap(tag, other.box)) * weightOf(other, mark);
    }
    if (total < least) [best, least] = [tag, total];
  }
  return best;
}

// The cost of hiding part of another mark: high for a small neighbour, low for a box around it.
function weightOf(other, mark) {
  if (other.scrolls) return 0;
  const around = areaOf(overlap(other.box, mark.box)) > 0.8 * areaOf(mark.box);
  if (around) return 0.02;
  return Math.min(1, 3000 / (areaOf(other.box) + 1));
}
