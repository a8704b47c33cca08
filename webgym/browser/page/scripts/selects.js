// Drop-down lists. A browser draws the open list outside of the page, where screenshots do not show
// it and clicks do not reach it. With `appearance: base-select` it is drawn inside the page, until
// the list loses the focus.

const PREPARED = "data-list-in-page";
const prepared = new WeakMap();

// Make a drop-down list at a point open inside the page.
function prepareSelect(x, y) {
  const target = intendedElement(null, x, y);
  if (target && isForeign(target)) return insideFrame(target, x, y);
  const select = target && nearest(target, (node) => tagOf(node) === "select" && isHtml(node));
  if (!select || !isDropDown(select) || isDisabled(select)) return;
  if (prepared.has(select) || isOpen(select)) return;
  if (!CSS.supports("appearance", "base-select")) return;
  const root = rootNode(select);
  const view = viewOf(ownerDocument(select));
  const sheet = new view.CSSStyleSheet();
  const mark = String(numberOf(select));
  const name = `select[${PREPARED}="${mark}"]`;
  const [width, height] = [offsetWidth(select), offsetHeight(select)];
  sheet.replaceSync(
    `${name}, ${name}::picker(select) { appearance: base-select !important; }
     ${name} { box-sizing: border-box !important; width: ${width}px !important;
       height: ${height}px !important; min-height: 0 !important; padding-block: 0 !important;
       align-items: center !important; }
     ${name}::picker-icon { display: none !important; }`,
  );
  root.adoptedStyleSheets.push(sheet);
  select.setAttribute(PREPARED, mark);
  const forget = ({ relatedTarget }) => {
    if (!relatedTarget || !contains(select, relatedTarget)) restoreSelect(select);
  };
  select.addEventListener("focusout", forget);
  prepared.set(select, { sheet, root, forget });
}

// Restore the original appearance of a list, which also closes it.
function restoreSelect(select) {
  const { sheet, root, forget } = prepared.get(select) ?? {};
  if (!sheet) return;
  prepared.delete(select);
  select.removeEventListener("focusout", forget);
  select.removeAttribute(PREPARED);
  const index = root.adoptedStyleSheets.indexOf(sheet);
  if (index >= 0) root.adoptedStyleSheets.splice(index, 1);
}

// Choose an option by its number, or by value or label within a list, with the usual events. The
// list can also be the one at a point.
function selectOption(id, wanted, x = null, y = null) {
  const target = intendedElement(id, x, y);
  if (target && isForeign(target) && x !== null) return insideFrame(target, x, y);
  const element = target && (id === null ? (controlOf(target) ?? target) : target);
  if (!element) return { problem: "gone" };
  const isOption = tagOf(element) === "option";
  const select = nearest(element, (node) => tagOf(node) === "select" && isHtml(node));
  if (!select) return { problem: "kind", tag: tagOf(element) };
  const option = isOption && wanted === null ? element : findOption(select, wanted);
  const total = select.options.length;
  if (!option) return { problem: "unknown", labels: labelsOf(select), total };
  const label = oneLine(option.label, TEXT_LIMIT);
  if (isDisabled(select)) return { problem: "disabled list" };
  if (matches(option, ":disabled")) return { problem: "disabled option", label };
  scrollIntoView(select, { block: "nearest", inline: "nearest", behavior: "instant" });
  select.focus({ preventScroll: true });
  const changed = !option.selected;
  if (changed) {
    if (select.multiple) option.selected = true;
    else select.selectedIndex = option.index;
  }
  restoreSelect(select);
  if (changed) announce(select);
  return { label, value: bounded(option.value, TEXT_LIMIT), changed };
}

function findOption(select, wanted) {
  if (wanted === null) return null;
  const options = Array.from(select.options);
  const plain = (text) => text.replace(/\s+/g, " ").trim().toLowerCase();
  return (
    options.find((option) => option.value === wanted) ??
    options.find((option) => option.label.trim() === wanted.trim()) ??
    options.find((option) => plain(option.label) === plain(wanted)) ??
    null
  );
}

function labelsOf(select) {
  return Array.from(select.options).slice(0, 30).map((option) => oneLine(option.label, 60));
}
