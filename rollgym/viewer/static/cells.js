// The task monitor's grid: a square for each rollout, drawn on a canvas because there may be
// thousands. Squares have their signs while they are large enough; the legend beside them says the
// counts in words. A square links to its rollout if the rollout is known.

import { fill, h } from "./dom.js";
import { count, moment, recordWords } from "./format.js";
import { link } from "./router.js";
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
const MAX_HEIGHT = 480; // px: squares become smaller before the grid gets higher than this
const SIGNED = 11;

// The arrow keys go to the next square with a link, along the row or the column.
const WAYS = {
  ArrowRight: () => 1, ArrowLeft: () => -1, ArrowDown: (columns) => columns, ArrowUp: (columns) => -columns,
};

export class CellGrid {
  // One link serves all squares: it is placed over the square under the pointer or the keyboard focus.
  constructor() {
    this.canvas = h("canvas", { role: "img" });
    this.link = link({ href: "/", class: "cell-link", hidden: true });
    this.node = h("div", { class: "cell-grid", data: { ownTip: "" } }, this.canvas, this.link);
    this.cells = "";
    this.hrefs = () => null;
    this.node.addEventListener("pointermove", (event) => this.#pointed(event));
    this.node.addEventListener("pointerleave", hideTip);
    this.link.addEventListener("keydown", (event) => this.#walk(event));
    this.observer = new ResizeObserver(() => this.#paint());
    this.observer.observe(this.node);
    this.repaint = () => this.#paint();
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.scheme.addEventListener("change", this.repaint);
    document.addEventListener("theme", this.repaint);
  }

  // `hrefs(index)` returns the link of a square; null where it is unknown.
  draw(cells, perCell, hrefs = () => null) {
    this.cells = cells;
    this.perCell = perCell;
    this.hrefs = hrefs;
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
    Object.assign(this, { size, step, columns });
    const ratio = devicePixelRatio || 1;
    const height = Math.max(1, rows * step);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.setProperty("height", `${height}px`);
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = `700 ${Math.round(size * 0.66)}px ${getComputedStyle(this.canvas).fontFamily}`;
    const paper = this.#colour("--bg");
    for (const kind of MARKS) this.#paintKind(context, kind, this.#colour(kind.fill), paper, size);
    this.#putLink(this.#leads(this.at) ? this.at : this.#next(-1, 1));
  }

  // The value of a CSS variable in the present theme.
  #colour(token) {
    this.canvas.style.setProperty("color", `var(${token})`);
    return getComputedStyle(this.canvas).color;
  }

  // Squares are drawn by colour, which is faster than changing the colour for each.
  #paintKind(context, kind, colour, paper, size) {
    context.fillStyle = colour;
    const places = [];
    for (let at = this.cells.indexOf(kind.mark); at >= 0; at = this.cells.indexOf(kind.mark, at + 1)) {
      const [x, y] = this.#corner(at);
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

  #corner(index) {
    return [(index % this.columns) * this.step, Math.floor(index / this.columns) * this.step];
  }

  #pointed(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.step);
    const index = Math.floor((event.clientY - box.top) / this.step) * this.columns + column;
    if (column >= this.columns || index < 0 || index >= this.cells.length) {
      hideTip();
      return;
    }
    if (this.#leads(index)) this.#putLink(index);
    showTip(this.#about(index), event.clientX, event.clientY);
  }

  #walk(event) {
    const by = WAYS[event.key]?.(this.columns);
    if (!by) return;
    event.preventDefault();
    const next = this.#next(this.at, by);
    if (next === null) return;
    this.#putLink(next);
    const box = this.link.getBoundingClientRect();
    // After the key press has hidden the previous tooltip.
    requestAnimationFrame(() => showTip(this.#about(next), box.left, box.bottom));
  }

  #about(index) {
    const words = BY_MARK.get(this.cells[index])?.words ?? "unknown";
    return `${name(index, this.perCell)}: ${this.perCell > 1 ? `mostly ${words}` : words}`;
  }

  #leads(index) {
    return index < this.cells.length && this.hrefs(index) !== null;
  }

  #next(from, by) {
    for (let at = from + by; at >= 0 && at < this.cells.length; at += by) if (this.#leads(at)) return at;
    return null;
  }

  #putLink(index) {
    this.at = index;
    this.link.hidden = index === null;
    if (index === null) return;
    const [x, y] = this.#corner(index);
    const place = { left: x, top: y, width: this.size, height: this.size };
    for (const [side, far] of Object.entries(place)) this.link.style.setProperty(side, `${far}px`);
    this.link.setAttribute("href", this.hrefs(index));
    this.link.setAttribute("aria-label", this.#about(index));
  }
}

function name(index, perCell) {
  return perCell > 1
    ? `rollouts ${count(index * perCell)} to ${count((index + 1) * perCell - 1)}` : `rollout ${count(index)}`;
}

// The largest size of squares for which the grid is not too high.
function planOf(total, width) {
  for (const size of SIZES) {
    const step = size + (size >= 11 ? 3 : size >= 6 ? 2 : 1);
    const columns = Math.max(1, Math.floor(width / step));
    const rows = Math.ceil(total / columns);
    if (rows * step <= MAX_HEIGHT || size === SIZES.at(-1)) return { size, step, columns, rows };
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

// The grids of a run: one, or one for each rank under its name.

const ENDED = "+x#!-=";

export class Boards {
  // `root` is the address of the source.
  constructor(root) {
    this.root = root;
    this.node = h("div", { class: "boards" });
    this.grids = [];
  }

  // Draws the grids of snapshots or of the index: `cells`, `rollouts_per_cell`, and optionally `title`,
  // `entries`, `rollouts` (pairs of task and repeat), and `silentSince`, the time of the last update.
  draw(boards) {
    if (this.grids.length !== boards.length) this.#begin(boards.length);
    boards.forEach((board, at) => {
      const { grid, title } = this.grids[at];
      const { silentSince = null } = board;
      title.hidden = boards.length < 2 && silentSince === null;
      fill(title, board.title ?? "", silentSince === null
        ? null : h("span", { class: "warn" }, " no updates since ", moment(silentSince)));
      grid.draw(board.cells ?? "", board.rollouts_per_cell ?? 1, this.#hrefs(board));
    });
  }

  destroy() {
    for (const { grid } of this.grids) grid.destroy();
  }

  #begin(many) {
    this.destroy();
    this.grids = Array.from({ length: many }, () => ({ grid: new CellGrid(), title: h("h3") }));
    fill(this.node, this.grids.map(({ grid, title }) => h("section", {}, title, grid.node)));
  }

  #hrefs({ cells = "", entries = [], rollouts = [] }) {
    return (index) => {
      const entry = entries[index] ?? null;
      if (entry !== null) return `${this.root}rollouts/${recordWords(entry)}`;
      if (!rollouts[index] || !ENDED.includes(cells[index])) return null;
      const [task, repeat] = rollouts[index].map(Number);
      return `${this.root}rollouts?task=${task}&repeat=${repeat}`;
    };
  }
}
