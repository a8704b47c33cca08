// Finding a text in one rollout: a bar with a field, and the matches one by one.
//
// The server returns the turns and steps that contain the text. Matches in the document are marked with
// CSS highlights, which do not change any element.

import { get } from "./api.js";
import { button, quietButton } from "./buttons.js";
import { h } from "./dom.js";
import { count, counted } from "./format.js";
import { textBlock } from "./text.js";

// Folds that are not searched, because they repeat other parts.
const LEFT_CLOSED = ".step-prompt, .step-raw";
const MOST_OPENED = 200;
const SHARE_ABOVE = 0.3; // of the scrolled height, above the match

// The ranges of a lower-case text within an element, one by one.
export function* rangesOf(root, sought) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const text = node.data.toLowerCase();
    // If lower case changes the length, offsets would be wrong.
    if (text.length !== node.data.length) continue;
    for (let at = text.indexOf(sought); at >= 0; at = text.indexOf(sought, at + sought.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + sought.length);
      yield range;
    }
  }
}

// The first visible match of a text within an element, after opening folds and fetching cut texts; null
// if there is none.
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

// The preview of a fold does not count as a match.
function firstSeen(root, sought) {
  for (const range of rangesOf(root, sought)) {
    const around = range.startContainer.parentElement;
    if (around.checkVisibility() && !around.closest(".fold-preview")) return range;
  }
  return null;
}

// The browser fires its event late, and the content of a fold is created by it.
function setOpen(details, open) {
  details.open = open;
  details.dispatchEvent(new Event("toggle"));
}

// Scrolls a range into view; `inset` is the height that is covered at the top.
export async function bringIntoView(range, inset) {
  const { parentElement } = range.startContainer;
  // A long text is laid out when it is near, and cannot be scrolled before.
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
  // `jump({turn})` or `jump({step})` goes to a turn or step and returns a promise of its element;
  // `within` is the element whose matches are marked.
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
      go(-1, "Previous match", "↑"), go(1, "Next match", "↓"),
      quietButton("Close", () => this.close()));
    // Marks matches that scroll into view.
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

  // Opens for a text without taking the focus. `go`: also goes to the first match.
  seek(text, { go }) {
    this.#show();
    this.field.value = text;
    this.#ask({ go });
  }

  close() {
    // Returns the focus from the bar to where it was before.
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

  // Goes to a match and opens the folds around it.
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
    if (!length) this.said.textContent = "no match in a turn";
    else if (this.at < 0) this.said.textContent = counted(length, "match", "matches");
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
