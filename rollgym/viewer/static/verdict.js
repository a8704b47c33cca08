// What the verifier and the judge said, in few lines: it stands above all that was done.

import { h } from "./dom.js";
import { cut, words } from "./format.js";
import { fieldNode, isShort } from "./sections.js";
import { TextBlock, fold, oneLine } from "./text.js";

const MOST_FIELDS = 8;
const EXCERPT = 320;
const SPARED = 120;
const PREVIEW = 80;

// The verdict of a view; null where there is none.
export function verdict({ sections = [] }, place) {
  const told = sections.filter((section) => section.verdict);
  if (!told.length) return null;
  return h("section", { class: "verdict", "aria-label": "Verdict" }, told.map(({ title, fields }) => {
    const rest = fields.slice(MOST_FIELDS);
    return fold({ class: "section" }, h("h2", {}, title), () => [
      fieldList(fields.slice(0, MOST_FIELDS), place),
      rest.length ? fold({ class: "fold verdict-rest" }, h("span", { class: "fold-name" }, `${rest.length} more`),
        () => fieldList(rest, place)) : null,
    ], { open: true });
  }));
}

// Short ones first, which share lines.
function fieldList(fields, place) {
  const [short, long] = [true, false].map((wanted) => fields.filter(({ value }) => isShort(value) === wanted));
  return h("dl", { class: "fields" }, [...short, ...long].map((field) => verdictField(field, place)));
}

function verdictField(field, place) {
  const { name, value, is_json: isJson } = field;
  if (isShort(value)) return fieldNode(field, place);
  if (!isJson) return fieldNode(field, place, { excerpt: EXCERPT, spared: SPARED });
  const preview = h("span", { class: "fold-preview" }, cut(oneLine(value.text), PREVIEW));
  const tree = () => new TextBlock(value, { place, format: "json" }).node;
  return h("div", {}, h("dt", {}, words(name)), h("dd", {}, fold({ class: "fold" }, preview, tree)));
}
