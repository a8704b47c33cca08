// Finding a text in one rollout: a bar with a field, and the places where the text is, one by one.
//
// The server says in which turns and steps it occurs. What is in the document is marked by the
// browser's own highlights, which change no element.

import { h } from "./dom.js";
import { get } from "./api.js";
import { button, quietButton } from "./buttons.js";
import { count } from "./format.js";

const PAUSE = 200;
const MOST_MARKS = 2_000;
const NAME = "found";

export class Find {
  // `jump({turn})` or `jump({step})` goes to a place; `within` is the element that is marked.
  constructor({ place, jump, within }) {
    this.place = place;
    this.jump = jump;
    this.within = within;
    this.hits = [];
    this.at = -1;
    this.field = h("input", {
      type: "search",
      "aria-label": "Find in this rollout",
      placeholder: "Find in this rollout",
      maxlength: "1000",
      on: { input: () => this.#typed(), keydown: (event) => this.#pressed(event) },
    });
    this.said = h("span", { class: "find-said", role: "status" });
    const go = (by, label, sign) => button(sign, () => this.move(by), { "aria-label": label });
    this.node = h("div", { class: "find", role: "search", hidden: true }, this.field, this.said,
      go(-1, "Previous place", "↑"), go(1, "Next place", "↓"),
      quietButton("Close", () => this.close()));
    // What scrolls into view is marked too.
    this.observer = new MutationObserver(() => this.#markSoon());
  }

  get active() {
    return !this.node.hidden && this.hits.length > 0;
  }

  open() {
    if (this.node.hidden) this.before = document.activeElement;
    this.node.hidden = false;
    this.field.focus();
    this.field.select();
    this.observer.observe(this.within, { childList: true, subtree: true });
  }

  close() {
    // Whoever was in the bar with the keyboard goes back to where they came from.
    if (this.node.contains(document.activeElement)) {
      const before = this.before === document.body ? this.within.closest("main") : this.before;
      before.focus({ preventScroll: true });
    }
    this.node.hidden = true;
    this.hits = [];
    this.observer.disconnect();
    globalThis.CSS?.highlights?.delete(NAME);
  }

  move(by) {
    if (!this.hits.length) return;
    this.at = (this.at + by + this.hits.length) % this.hits.length;
    this.#say();
    this.jump(this.hits[this.at]);
  }

  destroy() {
    this.close();
    clearTimeout(this.timer);
    this.asked?.abort();
  }

  #pressed(event) {
    if (event.key === "Escape") {
      event.preventDefault();
      this.close();
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (this.field.value !== this.sought) this.#ask();
      else this.move(event.shiftKey ? -1 : 1);
    }
  }

  #typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#ask(), PAUSE);
  }

  async #ask() {
    clearTimeout(this.timer);
    this.asked?.abort();
    const { signal } = (this.asked = new AbortController());
    this.sought = this.field.value;
    this.hits = [];
    this.at = -1;
    this.#mark();
    if (!this.sought) {
      this.said.textContent = "";
      return;
    }
    try {
      const path = this.place.paths.find(this.place.id);
      const { turns, steps } = await get(path, { q: this.sought }, { signal });
      this.hits = [...steps.map((step) => ({ step })), ...turns.map((turn) => ({ turn }))];
      this.#say();
      this.move(1);
    } catch (error) {
      if (!signal.aborted) this.said.textContent = error.message;
    }
  }

  #say() {
    const { length } = this.hits;
    this.said.textContent = length ? `${count(Math.max(this.at, 0) + 1)} of ${count(length)}` : "nowhere";
  }

  #markSoon() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.#mark());
  }

  #mark() {
    if (!globalThis.CSS?.highlights) return;
    CSS.highlights.delete(NAME);
    const sought = this.sought?.toLowerCase();
    if (!sought || this.node.hidden) return;
    const ranges = [];
    const walker = document.createTreeWalker(this.within, NodeFilter.SHOW_TEXT);
    while (walker.nextNode() && ranges.length < MOST_MARKS) {
      const text = walker.currentNode.data.toLowerCase();
      // Where case changes the length, places would be wrong.
      if (text.length !== walker.currentNode.data.length) continue;
      let at = text.indexOf(sought);
      while (at >= 0 && ranges.length < MOST_MARKS) {
        const range = new Range();
        range.setStart(walker.currentNode, at);
        range.setEnd(walker.currentNode, at + sought.length);
        ranges.push(range);
        at = text.indexOf(sought, at + sought.length);
      }
    }
    if (ranges.length) CSS.highlights.set(NAME, new Highlight(...ranges));
  }
}
