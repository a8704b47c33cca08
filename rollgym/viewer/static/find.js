// Finding a text in one rollout: a bar with a field, and the places where the text is, one by one.
//
// The server says in which turns and steps it occurs. What is in the document is marked by the
// browser's own highlights, which change no element.

import { get } from "./api.js";
import { button, quietButton } from "./buttons.js";
import { h } from "./dom.js";
import { count, counted } from "./format.js";
import { textBlock } from "./text.js";

// Where a text stands in the document, and how it comes into view: folds are opened, what was cut is
// fetched, and whatever scrolls is scrolled.

// What is not looked into: it repeats other parts, or the whole.
const LEFT_CLOSED = ".step-prompt, .step-raw";
const MOST_OPENED = 200;
const SHARE_ABOVE = 0.3; // of what scrolls, over what is brought into view

// The ranges of a text in small letters within an element, one by one.
export function* rangesOf(root, sought) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const text = node.data.toLowerCase();
    // Where case changes the length, places would be wrong.
    if (text.length !== node.data.length) continue;
    for (let at = text.indexOf(sought); at >= 0; at = text.indexOf(sought, at + sought.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + sought.length);
      yield range;
    }
  }
}

// The first place of a text that can be seen within an element, after opening what hides it; null
// where there is none.
export async function uncover(root, sought) {
  let opened = 0;
  const within = async (part) => {
    const seen = firstSeen(part, sought);
    if (seen) return seen;
    for (const node of part.querySelectorAll(".text")) {
      const found = (await textBlock(node)?.openAt(sought)) && firstSeen(part, sought);
      if (found) return found;
    }
    for (const details of part.querySelectorAll("details:not([open])")) {
      if (details.matches(LEFT_CLOSED) || details.open || opened >= MOST_OPENED) continue;
      opened += 1;
      setOpen(details, true);
      const found = await within(details);
      if (found) return found;
      setOpen(details, false);
    }
    return null;
  };
  return within(root);
}

// A line that stands for what is folded is no place of its own.
function firstSeen(root, sought) {
  for (const range of rangesOf(root, sought)) {
    const around = range.startContainer.parentElement;
    if (around.checkVisibility() && !around.closest(".fold-preview")) return range;
  }
  return null;
}

// The browser's own event comes late, and the content is made when it comes.
function setOpen(details, open) {
  details.open = open;
  details.dispatchEvent(new Event("toggle"));
}

// Scrolls whatever a range lies in, so that it can be seen; `inset` is what lies over it at the top.
export async function bringIntoView(range, inset) {
  const { parentElement } = range.startContainer;
  // A long text is laid out when it comes near, and cannot be scrolled before.
  parentElement.scrollIntoView({ block: "nearest" });
  for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
  for (let box = parentElement; box; box = box.parentElement) {
    if (box.scrollHeight <= box.clientHeight || !/auto|scroll/.test(getComputedStyle(box).overflowY)) continue;
    const place = range.getBoundingClientRect();
    const { top } = box.getBoundingClientRect();
    if (place.top >= top + inset && place.bottom <= top + box.clientHeight) continue;
    box.scrollTop += place.top - top - box.clientHeight * SHARE_ABOVE;
  }
}

const PAUSE = 200;
const MOST_MARKS = 2_000;
const NAME = "found";

export class Find {
  // `jump({turn})` or `jump({step})` goes to a place and promises its element, where there is one;
  // `within` is the element that is marked.
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
    this.#show();
    this.field.focus();
    this.field.select();
  }

  // Opens for a text without taking the focus. `go`: to the first place, too.
  seek(text, { go }) {
    this.#show();
    this.field.value = text;
    this.#ask({ go });
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
    const from = this.at < 0 && by < 0 ? 0 : this.at;
    this.at = (from + by + this.hits.length) % this.hits.length;
    this.#say();
    this.#visit(this.hits[this.at]);
  }

  destroy() {
    this.close();
    clearTimeout(this.timer);
    this.asked?.abort();
  }

  #show() {
    if (this.node.hidden) this.before = document.activeElement;
    this.node.hidden = false;
    this.observer.observe(this.within, { childList: true, subtree: true });
  }

  // Goes to a place and opens what hides the text there.
  async #visit(hit) {
    const { sought } = this;
    const isWanted = () => this.sought === sought && this.hits[this.at] === hit;
    try {
      const element = await this.jump(hit);
      const range = element && isWanted() ? await uncover(element, sought.toLowerCase()) : null;
      if (range && isWanted()) await bringIntoView(range, this.node.offsetHeight);
    } catch (error) {
      if (isWanted()) this.said.textContent = error.message;
    }
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

  async #ask({ go = true } = {}) {
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
      if (go) this.move(1);
    } catch (error) {
      if (!signal.aborted) this.said.textContent = error.message;
    }
  }

  #say() {
    const { length } = this.hits;
    if (!length) this.said.textContent = "in no turn";
    else if (this.at < 0) this.said.textContent = counted(length, "place");
    else this.said.textContent = `${count(this.at + 1)} of ${count(length)}`;
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
    const marks = new Highlight();
    for (const range of rangesOf(this.within, sought)) {
      if (marks.add(range).size >= MOST_MARKS) break;
    }
    if (marks.size) CSS.highlights.set(NAME, marks);
  }
}
