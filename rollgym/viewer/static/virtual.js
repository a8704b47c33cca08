// A long list of items whose heights are known only once they are drawn: only those in view are in
// the document. It starts from an estimate, measures, and holds the topmost visible item where it is
// on the screen while those above it turn out higher or lower. So nothing jumps.
//
// It does so by scrolling. But setting the scroll position stops a smooth scroll of the browser, after a
// key or a flick. Until that has ended, the space before the list absorbs the difference: `shift`.

import { h } from "./dom.js";
import { Heights } from "./heights.js";

const OVERSCAN = 600;
const RESTS_AFTER = 500; // milliseconds without moving, where the browser does not say so

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
    // The list keeps its position itself.
    scroller.style.setProperty("overflow-anchor", "none");
    this.shown = new Map();
    this.anchor = null;
    this.at = scroller.scrollTop;
    this.moving = false;
    this.shift = 0;
    this.listener = scroller === document.scrollingElement ? window : scroller;
    this.onScroll = () => this.#scrolled();
    this.onRest = () => this.#rests();
    this.listener.addEventListener("scroll", this.onScroll, { passive: true });
    this.listener.addEventListener("scrollend", this.onRest);
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

  // Draws items again that are in the document: one, or all.
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

  // The node around an item, if it is in the document.
  node(index) {
    return this.shown.get(index) ?? null;
  }

  // Puts an item `offset` pixels below the top of the scroller, and keeps it there while the items around
  // it are drawn and measured.
  scrollToIndex(index, { offset = 0 } = {}) {
    this.#rests();
    this.anchor = { index: clamp(index, 0, Math.max(0, this.total - 1)), offset: -offset };
    this.#restore();
    this.#draw();
  }

  // Scrolls to the top of the scroller, above the list.
  scrollToTop() {
    this.#rests();
    this.anchor = null;
    this.#scrollTo(0);
    this.#draw();
  }

  destroy() {
    clearTimeout(this.timer);
    this.listener.removeEventListener("scroll", this.onScroll);
    this.listener.removeEventListener("scrollend", this.onRest);
    this.observer.disconnect();
    this.before.remove();
    this.items.remove();
    this.after.remove();
  }

  // How far the top of the scroller is below the top of the list.
  #listOffset() {
    const top = this.scroller === document.scrollingElement
      ? 0 : this.scroller.getBoundingClientRect().top + this.scroller.clientTop;
    return top - this.before.getBoundingClientRect().top - this.shift;
  }

  #scrolled() {
    this.#notice();
    this.#draw();
  }

  // Whether the user scrolled, which may be visible before its event.
  #notice() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const by = scrollTop - this.at;
    if (Math.abs(by) < 1) return;
    this.at = scrollTop;
    if (by < 0 && scrollTop > scrollHeight - clientHeight - 1) return; // the content became shorter
    this.moving = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(this.onRest, RESTS_AFTER);
    this.#hold();
  }

  // The smooth scroll has ended: scrolls by the absorbed difference.
  #rests() {
    this.moving = false;
    if (!this.shift) return;
    const wanted = this.scroller.scrollTop - this.shift;
    this.shift = 0;
    this.#space();
    this.#scrollTo(wanted);
    this.#draw();
  }

  #scrollTo(wanted) {
    this.scroller.scrollTop = wanted;
    this.at = this.scroller.scrollTop;
  }

  // Chooses the topmost visible item as the one to keep in place.
  #hold() {
    const offset = this.#listOffset();
    if (offset <= 0 || !this.total) {
      this.anchor = null; // the list starts below the top: nothing above it can change
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
    if (this.moving) {
      this.shift -= off;
      this.#space();
    } else {
      this.#scrollTo(this.scroller.scrollTop + off);
    }
  }

  #measured() {
    this.#notice();
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
    // After measuring, more or fewer items may fit; a few rounds are enough in practice.
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

  // Items that keep the focus may be out of order; the space only counts items that are not drawn.
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
    const lack = Math.max(0, -(before + this.shift));
    this.shift += lack;
    this.before.style.setProperty("height", `${before + this.shift}px`);
    this.after.style.setProperty("height", `${Math.max(0, this.heights.sum() - drawn - before)}px`);
    if (lack) this.#scrollTo(this.scroller.scrollTop + lack);
  }

  // The longest run of neighbours: the visible items, without a distant item that has the focus.
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
