// Reading the page: its address and scroll position, its text, and its metadata.

const TEXT_CHARACTERS = 400_000;
const JSON_LD = 20_000;
const FRAME_LINE = "\u0000";

function pageInfo() {
  const root = document.scrollingElement ?? documentRoot(document);
  return {
    url: bounded(location.href, 8192),
    title: oneLine(document.title, 500),
    width: innerWidth,
    height: innerHeight,
    scroll_x: scrollX,
    scroll_y: scrollY,
    page_width: root ? scrollWidth(root) : innerWidth,
    page_height: root ? scrollHeight(root) : innerHeight,
    loading: document.readyState !== "complete",
  };
}

function text(lineLimit) {
  const body = documentBody(document) ?? documentRoot(document);
  if (!body) return [];
  const pieces = readPieces(body, mixedElements());
  const lines = [];
  let characters = 0;
  for (const line of pieces.join("").split("\n")) {
    const clean = line.replace(/[^\S\n]+/g, " ").trim();
    if (!clean) continue;
    characters += clean.length;
    if (lines.length >= lineLimit || characters > TEXT_CHARACTERS) break;
    lines.push(clean.toWellFormed());
  }
  return lines;
}

// The browser returns visible text, but not that inside shadow roots and frames. So elements that
// contain those are read piece by piece; for all others `innerText` is used.
function mixedElements() {
  const mixed = new Set();
  const roots = [document];
  for (let index = 0; index < roots.length && index < 2000; index++) {
    for (const element of queryRoot(roots[index], "*")) {
      const tag = tagOf(element);
      const inner = shadowOf(element) ?? (isFrame(tag) ? frameDocument(element) : null);
      if (inner) roots.push(inner);
      if (!inner && tag !== "slot" && !isFrame(tag)) continue;
      for (let node = element; node && !mixed.has(node); node = outerParent(node)) mixed.add(node);
    }
  }
  return mixed;
}

function readPieces(body, mixed) {
  const pieces = [];
  let characters = 0;
  const waiting = [body];
  const add = (piece) => {
    pieces.push(piece);
    characters += piece.length;
  };
  while (waiting.length && characters < 2 * TEXT_CHARACTERS) {
    const node = waiting.pop();
    if (typeof node === "string") add(node);
    else if (nodeType(node) === TEXT) add(node.data.replace(/\s+/g, " "));
    else if (nodeType(node) === ELEMENT) readElement(node, mixed, waiting, add);
  }
  return pieces;
}

function readElement(element, mixed, waiting, add) {
  const tag = tagOf(element);
  if (tag === "br") add("\n");
  if (NEVER_SHOWN.has(tag)) return;
  const display = isHtml(element) || mixed.has(element) ? styleOf(element).display : "inline";
  if (display === "none") return;
  const isBlock = !display.startsWith("inline") && display !== "contents";
  if (isBlock) add("\n");
  if (isBlock) waiting.push("\n");
  if (!mixed.has(element)) {
    const read = isHtml(element) ? innerTextOf : textContent;
    if (checkVisibility(element, VISIBILITY_ONLY)) add(read(element));
    return;
  }
  const inner = frameDocument(element);
  if (inner) {
    waiting.push("\n", documentBody(inner) ?? documentRoot(inner), "\n");
    return;
  }
  // The server puts the text of a frame of another origin in the place of this line.
  if (isForeign(element) && checkVisibility(element, VISIBILITY_ONLY)) {
    const { width, height } = boundsOf(element);
    if (width > 10 && height > 10) add(`\n${FRAME_LINE}${numberOf(element)}\n`);
    return;
  }
  pushChildren(element, waiting, Infinity);
}

function metadata() {
  const meta = Object.create(null);
  for (const element of Array.from(document.querySelectorAll("meta[content]")).slice(0, 200)) {
    const name = attribute(element, "name") ?? attribute(element, "property");
    if (!name || Object.keys(meta).length >= 60) continue;
    meta[oneLine(name, 100).toLowerCase()] ??= oneLine(attribute(element, "content"), 500);
  }
  const headings = Array.from(document.querySelectorAll("h1, h2")).slice(0, 60);
  const data = document.querySelectorAll('script[type="application/ld+json"]');
  let left = JSON_LD;
  return {
    title: oneLine(document.title, 500),
    url: bounded(location.href, 8192),
    language: oneLine(documentRoot(document)?.lang, 40) || null,
    description: meta["description"] ?? meta["og:description"] ?? null,
    canonical: bounded(document.querySelector("link[rel~=canonical]")?.href, 2000) || null,
    meta,
    headings: headings
      .map((heading) => [Number(tagOf(heading)[1]), readText(heading, TEXT_LIMIT, true)])
      .map(([level, text]) => ({ level, text }))
      .filter((heading) => heading.text),
    json_ld: Array.from(data)
      .slice(0, 10)
      .map((script) => textContent(script).trim())
      .filter((block) => block && (left -= block.length) >= 0)
      .map((block) => block.toWellFormed()),
  };
}
