// A text as it is. One of many megabytes is laid out a portion at a time.

import { button } from "./buttons.js";
import { h } from "./dom.js";
import { count } from "./format.js";

const PORTION = 200_000;

export class PlainText {
  constructor(text) {
    this.text = text;
    this.shown = 0;
    this.more = null;
    this.node = h("div", { class: "plain" });
    this.#showMore();
  }

  // Goes on to where a text in small letters first is. Whether that was not shown yet.
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
    const words = `Show on from character ${count(this.shown)} of ${count(text.length)}`;
    this.more = button(words, () => this.#showMore(), { class: "more" });
    this.node.append(this.more);
  }
}
