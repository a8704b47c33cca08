// A long list of rows that all have one height: only those in view are in the document.

import { h, heldKey, holdKey } from "./dom.js";

const OVERSCAN = 600;
// Browsers cut elements that are higher than some tens of millions of pixels. Beyond this the
// scroll bar covers more rows per pixel.
const HIGHEST = 12_000_000;

export class FixedList {
  // `container` scrolls; `render(index)` returns the node of a row, which is placed by its top.
  // `top` is the height of the sticky head of the container above the rows.
  constructor({ container, rowHeight, total, render, top = 0 }) {
    this.container = container;
    this.rowHeight = rowHeight;
    this.render = render;
    this.top = top;
    this.rows = new Map();
    this.space = h("div", { class: "virtual-space", role: "presentation" });
    container.append(this.space);
    this.onScroll = () => this.#draw();
    container.addEventListener("scroll", this.onScroll, { passive: true });
    this.observer = new ResizeObserver(() => this.#draw());
    this.observer.observe(container);
    this.setTotal(total);
  }

  setTotal(total) {
    this.total = total;
    this.height = Math.min(total * this.rowHeight, HIGHEST);
    this.space.style.setProperty("height", `${this.height}px`);
    for (const [index, row] of this.rows) {
      if (index >= total) this.#drop(index, row);
    }
    this.#draw();
  }

  // Draws the visible rows again, and keeps the keyboard focus.
  refresh() {
    const held = heldKey(this.space);
    for (const [index, row] of [...this.rows]) this.#drop(index, row);
    this.#draw();
    holdKey(this.space, held);
  }

  // The indexes from the first row in view to the one after the last.
  visible() {
    const first = Math.floor(this.#offset() / this.rowHeight);
    const room = Math.max(0, this.container.clientHeight - this.top);
    const end = Math.ceil((this.#offset() + room) / this.rowHeight);
    return [clamp(first, 0, this.total), clamp(end, 0, this.total)];
  }

  row(index) {
    return this.rows.get(index) ?? null;
  }

  // Brings a row into view: by `align` "nearest" no further than needed.
  scrollToIndex(index, { align = "nearest" } = {}) {
    const room = Math.max(this.rowHeight, this.container.clientHeight - this.top);
    const rowTop = index * this.rowHeight;
    let offset = this.#offset();
    if (align === "start") offset = rowTop;
    else if (align === "center") offset = rowTop - (room - this.rowHeight) / 2;
    else if (rowTop < offset) offset = rowTop;
    else if (rowTop + this.rowHeight > offset + room) offset = rowTop + this.rowHeight - room;
    else return;
    this.container.scrollTop = this.#scrolled(Math.max(0, offset));
    this.#draw();
  }

  destroy() {
    this.container.removeEventListener("scroll", this.onScroll);
    this.observer.disconnect();
    this.space.remove();
  }

  // Converts between positions of the scroll bar and real offsets of rows.
  #offset() {
    return this.container.scrollTop * this.#scale();
  }

  #scrolled(offset) {
    return offset / this.#scale();
  }

  #scale() {
    const room = Math.max(0, this.container.clientHeight - this.top);
    const range = this.height - room;
    return range > 0 ? Math.max(1, (this.total * this.rowHeight - room) / range) : 1;
  }

  #draw() {
    const offset = this.#offset();
    const scrolled = this.container.scrollTop;
    const room = this.container.clientHeight;
    const first = clamp(Math.floor((offset - OVERSCAN) / this.rowHeight), 0, this.total);
    const end = clamp(Math.ceil((offset + room + OVERSCAN) / this.rowHeight), 0, this.total);
    for (const [index, row] of [...this.rows]) {
      const isAway = index < first || index >= end;
      if (isAway && !row.contains(document.activeElement)) this.#drop(index, row);
    }
    for (let index = first; index < end; index++) {
      let row = this.rows.get(index);
      if (!row) {
        row = this.render(index);
        this.rows.set(index, row);
        this.#insert(row, index);
      }
      const top = scrolled + index * this.rowHeight - offset;
      row.style.setProperty("transform", `translateY(${Math.round(top)}px)`);
    }
  }

  // In the order of the rows, for the Tab key and screen readers.
  #insert(row, index) {
    let next = null;
    for (const other of this.rows.keys()) if (other > index && (next === null || other < next)) next = other;
    this.space.insertBefore(row, next === null ? null : this.rows.get(next));
  }

  #drop(index, row) {
    row.remove();
    this.rows.delete(index);
  }
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}
