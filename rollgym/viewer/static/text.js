// A text of a rollout: as Markdown, as a JSON tree, or as it is. Long texts are cut until requested.

import { text as fetchText } from "./api.js";
import { button } from "./buttons.js";
import { fill, h } from "./dom.js";
import { count } from "./format.js";
import { isTree, jsonTree, parseJson } from "./json.js";
import { LONGEST_MARKDOWN, markdown } from "./markdown.js";

// A text as it is. One of many megabytes is laid out a portion at a time.

const PORTION = 200_000;

export class PlainText {
  constructor(text) {
    this.text = text;
    this.shown = 0;
    this.more = null;
    this.node = h("div", { class: "plain" });
    this.#showMore();
  }

  // Shows more up to the first match of a lower-case text; returns whether more was shown.
  showUntil(sought) {
    const at = this.text.toLowerCase().indexOf(sought);
    if (at < 0 || at + sought.length <= this.shown) return false;
    while (this.shown < at + sought.length) this.#showMore();
    return true;
  }

  #showMore() {
    const { text } = this;
    this.more?.remove();
    this.node.append(h("div", { class: "plain-portion" }, text.slice(this.shown, this.shown + PORTION)));
    this.shown += PORTION;
    if (this.shown >= text.length) return;
    const words = `Continue from character ${count(this.shown)} of ${count(text.length)}`;
    this.more = button(words, () => this.#showMore(), { class: "more" });
    this.node.append(this.more);
  }
}

const EXCERPT = 5_000;
const MOST_LINES = 60;
// Less than this is not cut.
const SPARED = 1_000;

const blocks = new WeakMap(); // element → its TextBlock

// The TextBlock of an element, or undefined.
export function textBlock(node) {
  return blocks.get(node);
}

export class TextBlock {
  // `text`: {text, size, path} of the view. `format`: "markdown", "json" (a tree where it is one,
  // else as it is) or "plain". `place`: {paths, id} of the rollout. A text longer than `excerpt`
  // by more than `spared` is cut.
  constructor(text, { place, format = "markdown", excerpt = EXCERPT, spared = SPARED }) {
    this.text = text;
    this.place = place;
    this.format = format;
    this.excerpt = excerpt;
    this.whole = text.text.length >= text.size ? text.text : null;
    const most = excerpt + spared;
    this.opened = text.size <= most && beginning(text.text, most).length === text.text.length;
    this.plain = false;
    this.node = h("div", { class: "text" });
    blocks.set(this.node, this);
    this.#draw();
  }

  // Shows the whole text if a lower-case text is in the hidden part; returns whether it did.
  async openAt(sought) {
    const isOpen = this.opened && this.whole !== null;
    if (!isOpen) {
      if (!(await this.fetchWhole()).toLowerCase().includes(sought)) return false;
      this.opened = true;
      this.#draw();
    }
    const isFurther = this.plainText?.showUntil(sought) ?? false;
    return !isOpen || isFurther;
  }

  // As it was written, or rendered.
  setPlain(plain) {
    this.plain = plain;
    this.#draw();
  }

  // The whole text, fetched if only its start is loaded.
  async fetchWhole() {
    if (this.whole === null) {
      if (!this.text.path) return this.text.text;
      this.whole = await fetchText(this.place.paths.text(this.place.id), { path: this.text.path });
    }
    return this.whole;
  }

  #draw() {
    const shown = this.opened ? this.whole ?? this.text.text : beginning(this.text.text, this.excerpt);
    const rest = this.opened && this.whole !== null ? null : this.#moreButton();
    fill(this.node, this.#body(shown), rest);
  }

  #body(shown) {
    this.plainText = null;
    if (this.plain || this.format === "plain") return this.#asItIs(shown);
    if (this.opened || this.format === "json") {
      // A cut text can be a tree if the whole text is loaded.
      const value = this.whole !== null && looksLikeTree(this.whole) ? parseJson(this.whole) : undefined;
      if (isTree(value)) {
        this.opened = true;
        return jsonTree(value, { depth: 2 });
      }
    }
    const isRendered = this.format === "markdown" && shown.length <= LONGEST_MARKDOWN;
    return isRendered ? markdown(shown) : this.#asItIs(shown);
  }

  #asItIs(shown) {
    this.plainText = new PlainText(shown);
    return this.plainText.node;
  }

  #moreButton() {
    if (this.opened && this.whole !== null) return null;
    if (this.whole === null && !this.text.path && this.opened) return null;
    const open = async () => {
      more.disabled = true;
      try {
        await this.fetchWhole();
        this.opened = true;
        this.#draw();
      } catch (error) {
        more.after(h("span", { class: "bad", role: "alert" }, ` ${error.message}`));
        more.disabled = false;
      }
    };
    const more = button(`Show all ${count(this.text.size)} characters`, open, { class: "more" });
    return more;
  }
}

// A fold whose content is created when it is first opened.
export function fold(props, summary, content, { open = false } = {}) {
  const body = h("div", { class: "fold-body" });
  const reveal = () => {
    if (details.open && !body.hasChildNodes()) fill(body, content());
  };
  const details = h("details", { ...props, on: { toggle: reveal } }, h("summary", {}, summary), body);
  details.open = open;
  reveal();
  return details;
}

// The raw JSON at a pointer of the record: a tree, or the text if it is too big.
export function rawJson(place, path, { signal = null } = {}) {
  const node = h("div", { class: "raw" }, h("p", { class: "muted" }, "Reading…"));
  fetchText(place.paths.raw(place.id), { path }, { signal }).then(
    (text) => {
      const value = parseJson(text);
      fill(node, value === undefined ? new PlainText(text).node : jsonTree(value, { depth: 3 }));
    },
    (error) => fill(node, h("p", { class: "problem", role: "alert" }, error.message)),
  );
  return node;
}

// The start of a text without line breaks, for a preview.
export function oneLine(text) {
  return text.slice(0, 400).replace(/\s+/g, " ").trim();
}

function looksLikeTree(text) {
  return /^\s{0,100}[[{]/.test(text);
}

// The first characters and lines, up to the end of a line if one is near, never half a surrogate pair. A
// text that is only a few lines longer is not cut.
function beginning(text, most) {
  let line = -1;
  let lines = 0;
  while (lines < MOST_LINES && (line = text.indexOf("\n", line + 1)) >= 0) lines += 1;
  const room = line >= 0 && text.length - line > SPARED ? Math.min(line, most) : most;
  if (text.length <= room) return text;
  const last = text.lastIndexOf("\n", room);
  const end = last > room * 0.7 ? last : room;
  const code = text.charCodeAt(end - 1);
  return text.slice(0, code >= 0xd800 && code <= 0xdbff ? end - 1 : end);
}
