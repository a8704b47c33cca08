// From the number of an element to a point where a click hits it.

function factsOf(element) {
  const kind = takesKeys(element) ? "keys" : kindOf(element);
  const facts = { tag: tagOf(element), kind };
  if (isDisabled(element)) facts.disabled = true;
  if ((kind === "text" || kind === "picker") && element.readOnly) facts.readonly = true;
  return facts;
}

function locate(id, area) {
  visiblePart = area ?? null;
  const element = elementNumbered(id);
  if (!element || !isOnPage(element)) return { missing: "gone" };
  const facts = factsOf(element);
  const isUnlisted = facts.kind === "option" && clientRects(element).length === 0;
  if (isUnlisted) return { missing: "unlisted", facts };
  const seen = visibleElementFor(element);
  let covered = null;
  for (const block of [null, "nearest", "center"]) {
    if (block) scrollIntoView(seen, { block, inline: "nearest", behavior: "instant" });
    const attempt = pointIn(element, seen);
    if (attempt.point) {
      const [x, y] = attempt.point.map((at) => Math.round(at * 10) / 10);
      return { x, y, facts };
    }
    if (attempt.hidden) return { missing: "hidden", facts };
    covered = attempt.covered ?? covered;
  }
  if (!covered) return { missing: "hidden", facts };
  return { missing: "covered", by: briefly(covered), facts };
}

// A point where the element is hit, if possible one without another interactive element on it.
function pointIn(element, seen) {
  const geometry = new Geometry();
  const pane = geometry.paneOf(seen);
  const isShown = tagOf(seen) === "area" || checkVisibility(seen, VISIBILITY_ONLY);
  if (!pane || !isShown) return { hidden: true };
  const parts = geometry.parts(seen, pane, styleOf(seen));
  if (!parts.length) return { hidden: true };
  const clip = overlap(geometry.clipOf(seen, pane).visible, pane.area);
  let loose = null;
  let covered = null;
  for (const point of pointsOf(shown(parts, overlap(clip, geometry.top.area)), 27)) {
    const hit = elementAt(geometry, point[0], point[1]);
    if (!hit) continue;
    if (!passesClickTo(hit, element)) covered = covered ?? hit;
    else if (actsBetween(hit, seen)) loose = loose ?? point;
    else return { point };
  }
  return { point: loose, covered };
}

const ACTING = "a[href], button, input, select, textarea, [role=button], [role=link], [onclick]";
function actsBetween(hit, element) {
  const acting = nearest(hit, (node) => node === element || matches(node, ACTING));
  return acting !== null && acting !== element && holds(element, acting);
}

// A short description of an element, for messages.
function briefly(element) {
  const tag = tagOf(element);
  const id = attribute(element, "id");
  const styles = (attribute(element, "class") ?? "").split(/\s+/).filter(Boolean);
  const name = id ? `${tag}#${id}` : [tag, ...styles.slice(0, 2)].join(".");
  const text = readText(element, 40, true);
  return bounded(text ? `<${name}> "${text}"` : `<${name}>`, 120);
}

// The target of a click at a point: the field or button there, or the one of its label.
function at(x, y) {
  const hit = elementAt(new Geometry(), x, y);
  if (!hit) return null;
  if (isForeign(hit)) return insideFrame(hit, x, y);
  const target = nearest(hit, (node) => kindOf(node) !== "other" || controlOf(node) !== null);
  return factsOf(target ? (controlOf(target) ?? target) : hit);
}
