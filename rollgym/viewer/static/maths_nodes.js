// Pieces of MathML that formulas are put together from.

import { math } from "./dom.js";

export function upright(text) {
  return math("mi", { mathvariant: "normal" }, text);
}

export function table(rows, layout) {
  return math("mtable", { class: `math-${layout}`, displaystyle: layout === "align" ? "true" : null },
    rows.map((row) => math("mtr", {}, row.map((cell) => math("mtd", {}, cell)))));
}

export function fence(start, inner, end) {
  if (!start && !end) return inner;
  const bracket = (text) => (text ? math("mo", { fence: "true", stretchy: "true" }, text) : null);
  return math("mrow", {}, bracket(start), inner, bracket(end));
}

// Brackets that nobody asked to grow stay as they are.
export function bracketProps(token) {
  return /[()[\]{}|/]/.test(token) ? { stretchy: "false" } : {};
}
