// Long lists: only what can be seen is in the document.
//
// `FixedList` is for rows of one height. `VariableList` is for items whose heights are known only
// once they are drawn: it starts from an estimate, measures, and holds the topmost visible item
// where it is on the screen while those above it turn out higher or lower. So nothing jumps.

import { h } from "./dom.js";
import { Heights } from "./heights.js";

const OVERSCAN = 600;
// Browsers cut elements that are higher than some tens of millions of pixels. Beyond this the
// scroll bar covers more rows per pixel.
const HIGHEST = 12_000_000;

export class FixedList {
  // `container` scrolls; `render(index)` gives the node of a row, which is placed by its top.
  // `top` is the height of whatever sticks to the top of the container above the rows.
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

  // Draws the rows in view anew: one row, or all.
  refresh(index = null) {
    if (index === null) for (const [one, row] of [...this.rows]) this.#drop(one, row);
    else if (this.rows.has(index)) this.#drop(index, this.rows.get(index));
    else return;
    this.#draw();
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

  // The real offset of the rows that the position of the scroll bar stands for, and back.
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
      if (index < first || index >= end) this.#drop(index, row);
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

  // In the order of the rows, so that the Tab key and screen readers meet them in it.
  #insert(row, index) {
    const next = this.rows.get(index + 1);
    const previous = this.rows.get(index - 1);
    if (previous?.isConnected) previous.after(row);
    else if (next?.isConnected) next.before(row);
    else this.space.append(row);
  }

  #drop(index, row) {
    row.remove();
    this.rows.delete(index);
  }
}

export class VariableList {
  // `scroller` scrolls, and may have other things above the list; `container` is where the list
  // goes, by itself the end of the scroller. `estimate` is a height, or a function of the index.
  constructor({ scroller, container = null, total, estimate, render }) {
    this.scroller = scroller;
    this.render = render;
    this.estimate = typeof estimate === "function" ? estimate : () => estimate;
    this.before = h("div", { class: "virtual-before", role: "presentation" });
    this.items = h("div", { class: "virtual-items", role: "presentation" });
    this.after = h("div", { class: "virtual-after", role: "presentation" });
    (container ?? scroller).append(this.before, this.items, this.after);
    // The list holds its place itself.
    scroller.style.setProperty("overflow-anchor", "none");
    this.shown = new Map();
    this.anchor = null;
    this.listener = scroller === document.scrollingElement ? window : scroller;
    this.onScroll = () => this.#scrolled();
    this.listener.addEventListener("scroll", this.onScroll, { passive: true });
    this.observer = new ResizeObserver(() => this.#measured());
    this.observer.observe(scroller);
    this.heights = new Heights(0, this.estimate);
    this.setTotal(total);
  }

  setTotal(total) {
    for (const [index, item] of [...this.shown]) if (index >= total) this.#drop(index, item);
    this.heights = this.heights.resized(total);
    this.total = total;
    if (this.anchor && this.anchor.index >= total) this.anchor = null;
    this.#draw();
  }

  // Draws items anew that are in the document: one, or all.
  refresh(index = null) {
    for (const [one, item] of [...this.shown]) {
      if (index === null || one === index) this.#fill(item, one);
    }
    this.#measured();
  }

  visible() {
    const top = this.#listOffset();
    const first = this.heights.at(top);
    const end = this.heights.at(top + this.scroller.clientHeight) + 1;
    return [clamp(first, 0, this.total), clamp(end, 0, this.total)];
  }

  // The node around an item, where it is in the document.
  node(index) {
    return this.shown.get(index) ?? null;
  }

  // Puts an item at the top of the scroller, `offset` pixels below it, and holds it there while
  // what is around it is drawn and measured.
  scrollToIndex(index, { offset = 0 } = {}) {
    this.anchor = { index: clamp(index, 0, Math.max(0, this.total - 1)), offset: -offset };
    this.#restore();
    this.#draw();
  }

  destroy() {
    this.listener.removeEventListener("scroll", this.onScroll);
    this.observer.disconnect();
    this.before.remove();
    this.items.remove();
    this.after.remove();
  }

  // How far the top of the scroller is below the top of the list.
  #listOffset() {
    const top = this.scroller === document.scrollingElement
      ? 0 : this.scroller.getBoundingClientRect().top + this.scroller.clientTop;
    return top - this.before.getBoundingClientRect().top;
  }

  #scrolled() {
    if (this.expected !== undefined && Math.abs(this.scroller.scrollTop - this.expected) < 1) {
      this.expected = undefined; // our own correction
    } else {
      this.#hold();
    }
    this.#draw();
  }

  // Takes the topmost visible item as the one to keep in place.
  #hold() {
    const offset = this.#listOffset();
    if (offset <= 0 || !this.total) {
      this.anchor = null; // the list begins below the top: nothing above it can change
      return;
    }
    const index = this.heights.at(offset);
    this.anchor = { index, offset: offset - this.heights.before(index) };
  }

  #restore() {
    if (!this.anchor) return;
    const wanted = this.heights.before(this.anchor.index) + this.anchor.offset;
    const off = wanted - this.#listOffset();
    if (Math.abs(off) < 1) return;
    this.scroller.scrollTop += off;
    this.expected = this.scroller.scrollTop;
  }

  #measured() {
    this.#measure();
    this.#space();
    this.#restore();
    this.#draw();
  }

  #measure() {
    for (const [index, item] of this.shown) {
      if (!item.classList.contains("is-pending")) {
        this.heights.set(index, item.getBoundingClientRect().height);
      }
    }
  }

  #draw() {
    // Measuring may show that more fits in, or less; a few rounds are always enough in practice.
    for (let round = 0; round < 4; round++) {
      const [first, end] = this.#range();
      const changed = this.#show(first, end);
      if (!changed) return;
      this.#measure();
      this.#space();
      this.#restore();
    }
  }

  #range() {
    const top = this.#listOffset();
    const first = this.heights.at(Math.max(0, top - OVERSCAN));
    const last = this.heights.at(Math.max(0, top + this.scroller.clientHeight + OVERSCAN));
    return [first, Math.min(this.total, last + 1)];
  }

  #show(first, end) {
    let changed = false;
    for (const [index, item] of [...this.shown]) {
      if (index >= first && index < end) continue;
      if (item.contains(document.activeElement)) continue; // do not lose the focus
      this.#drop(index, item);
      changed = true;
    }
    for (let index = first; index < end; index++) {
      if (this.shown.has(index)) continue;
      const item = h("div", { class: "virtual-item", data: { index } });
      this.shown.set(index, item);
      this.#place(item, index);
      this.#fill(item, index);
      this.observer.observe(item);
      changed = true;
    }
    if (changed) this.#space();
    return changed;
  }

  #place(item, index) {
    for (const other of this.items.children) {
      if (Number(other.dataset.index) > index) {
        other.before(item);
        return;
      }
    }
    this.items.append(item);
  }

  #fill(item, index) {
    const node = this.render(index);
    if (node instanceof Node) {
      this.#settle(item, node);
      return;
    }
    item.classList.add("is-pending");
    if (!item.childNodes.length) {
      item.style.setProperty("min-height", `${this.heights.of(index)}px`);
    }
    node.then((done) => {
      if (this.shown.get(index) === item) {
        this.#settle(item, done);
        this.#measured();
      }
    }, (error) => {
      if (this.shown.get(index) === item) {
        this.#settle(item, h("p", { class: "problem", role: "alert", text: error.message }));
        this.#measured();
      }
    });
  }

  #settle(item, node) {
    item.classList.remove("is-pending");
    item.style.removeProperty("min-height");
    item.replaceChildren(node);
  }

  #drop(index, item) {
    this.observer.unobserve(item);
    item.remove();
    this.shown.delete(index);
  }

  // Items that keep the focus may be out of order; the space counts only what is not drawn.
  #space() {
    const indexes = [...this.shown.keys()].sort((a, b) => a - b);
    if (!indexes.length) {
      this.before.style.setProperty("height", "0px");
      this.after.style.setProperty("height", `${this.heights.sum()}px`);
      return;
    }
    const drawn = indexes.reduce((sum, index) => sum + this.heights.of(index), 0);
    const [first] = this.#contiguous(indexes);
    const above = indexes.filter((index) => index < first);
    const kept = above.reduce((sum, index) => sum + this.heights.of(index), 0);
    const before = this.heights.before(first) - kept;
    this.before.style.setProperty("height", `${before}px`);
    this.after.style.setProperty("height", `${Math.max(0, this.heights.sum() - drawn - before)}px`);
  }

  // The longest run of neighbours: what is in view, without an item far away that has the focus.
  #contiguous(indexes) {
    let best = [indexes[0], 0];
    for (let start = 0, end = 0; start < indexes.length; start = end) {
      for (end = start + 1; end < indexes.length && indexes[end] === indexes[end - 1] + 1;) end++;
      if (end - start > best[1]) best = [indexes[start], end - start];
    }
    return best;
  }
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}
