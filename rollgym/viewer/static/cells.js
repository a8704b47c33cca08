// The task monitor's grid: a square for each rollout, drawn on a canvas because there may be
// thousands. Squares have their signs while they are large enough; the legend beside them says the
// counts in words.

import { h } from "./dom.js";
import { count } from "./format.js";
import { hideTip, showTip } from "./tooltip.js";

// In the order of the legend. `mark` is the character of a snapshot's cells.
export const MARKS = [
  { mark: "+", state: "success", sign: "✓", words: "success", fill: "--fill-good" },
  { mark: "x", state: "failure", sign: "✕", words: "no success", fill: "--fill-bad" },
  { mark: "#", state: "blocked", sign: "#", words: "blocked", fill: "--fill-warn" },
  { mark: "!", state: "failed", sign: "!", words: "failed", fill: "--fill-failed" },
  { mark: "-", state: "omitted", sign: "–", words: "omitted", fill: "--fill-none" },
  { mark: "=", state: "earlier", sign: "=", words: "ended earlier", fill: "--info" },
  { mark: ">", state: "running", sign: "▸", words: "running", fill: "--fill" },
  { mark: "w", state: "waiting", sign: "w", words: "waiting", fill: "--border-strong" },
  { mark: "?", state: "overdue", sign: "?", words: "overdue", fill: "--warn" },
  { mark: ".", state: "not_started", sign: "", words: "not ended", fill: "--track" },
];
const BY_MARK = new Map(MARKS.map((one) => [one.mark, one]));
const SIZES = [18, 14, 11, 8, 6, 4];
const ROOM = 480; // px: the grid is no higher than this where smaller squares avoid it
const SIGNED = 11;

export class CellGrid {
  constructor() {
    this.canvas = h("canvas", { role: "img", data: { ownTip: "" } });
    this.node = h("div", { class: "cell-grid" }, this.canvas);
    this.cells = "";
    this.canvas.addEventListener("pointermove", (event) => this.#pointed(event));
    this.canvas.addEventListener("pointerleave", hideTip);
    this.observer = new ResizeObserver(() => this.#paint());
    this.observer.observe(this.node);
    this.repaint = () => this.#paint();
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.scheme.addEventListener("change", this.repaint);
    document.addEventListener("theme", this.repaint);
  }

  draw(cells, perCell) {
    this.cells = cells;
    this.perCell = perCell;
    this.canvas.setAttribute("aria-label", summary(cells, perCell));
    this.#paint();
  }

  destroy() {
    this.observer.disconnect();
    this.scheme.removeEventListener("change", this.repaint);
    document.removeEventListener("theme", this.repaint);
  }

  #paint() {
    const width = this.node.clientWidth;
    if (!width) return;
    const { size, step, columns, rows } = planOf(this.cells.length, width);
    Object.assign(this, { step, columns });
    const ratio = devicePixelRatio || 1;
    const height = Math.max(1, rows * step);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.setProperty("height", `${height}px`);
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.textAlign = "center";
    context.textBaseline = "middle";
    const tokens = getComputedStyle(document.documentElement);
    const paper = tokens.getPropertyValue("--bg");
    context.font = `700 ${Math.round(size * 0.66)}px ${tokens.getPropertyValue("--sans")}`;
    for (const kind of MARKS) this.#paintKind(context, kind, tokens.getPropertyValue(kind.fill), paper, size);
  }

  // All squares of one colour after each other, which is quicker than to change it.
  #paintKind(context, kind, colour, paper, size) {
    context.fillStyle = colour;
    const places = [];
    for (let at = this.cells.indexOf(kind.mark); at >= 0; at = this.cells.indexOf(kind.mark, at + 1)) {
      const x = (at % this.columns) * this.step;
      const y = Math.floor(at / this.columns) * this.step;
      if (size >= 8) {
        context.beginPath();
        context.roundRect(x, y, size, size, 2);
        context.fill();
      } else {
        context.fillRect(x, y, size, size);
      }
      places.push([x, y]);
    }
    if (size < SIGNED || !kind.sign) return;
    context.fillStyle = paper;
    for (const [x, y] of places) context.fillText(kind.sign, x + size / 2, y + size / 2 + 0.5);
  }

  #pointed(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.step);
    const index = Math.floor((event.clientY - box.top) / this.step) * this.columns + column;
    if (column >= this.columns || index < 0 || index >= this.cells.length) {
      hideTip();
      return;
    }
    const words = BY_MARK.get(this.cells[index])?.words ?? "unknown";
    const state = this.perCell > 1 ? `mostly ${words}` : words;
    showTip(`${name(index, this.perCell)}: ${state}`, event.clientX, event.clientY);
  }
}

function name(index, perCell) {
  return perCell > 1
    ? `rollouts ${count(index * perCell)} to ${count((index + 1) * perCell - 1)}` : `rollout ${count(index)}`;
}

// The largest squares with which the grid is not too high.
function planOf(total, width) {
  for (const size of SIZES) {
    const step = size + (size >= 11 ? 3 : size >= 6 ? 2 : 1);
    const columns = Math.max(1, Math.floor(width / step));
    const rows = Math.ceil(total / columns);
    if (rows * step <= ROOM || size === SIZES.at(-1)) return { size, step, columns, rows };
  }
  return null;
}

function summary(cells, perCell) {
  const counts = new Map();
  for (const mark of cells) counts.set(mark, (counts.get(mark) ?? 0) + 1);
  const parts = MARKS.filter(({ mark }) => counts.has(mark))
    .map(({ mark, words }) => `${count(counts.get(mark))} ${words}`);
  const each = perCell > 1 ? `, each of ${perCell} rollouts` : "";
  return `${count(cells.length)} squares${each}: ${parts.join(", ")}`;
}
