// New rows of a list. While a file is read for the first time, rows are only added at the end, and are
// shown immediately; later they may appear anywhere, and a button offers them.

import { get } from "./api.js";
import { h } from "./dom.js";
import { count, counted } from "./format.js";
import { sourceOf } from "./state.js";

export class FreshRows {
  // `view` is the list: its `pages`, `list`, `grid`, `params`, `paths` and `source` are the present
  // ones. `grown(answer)` is called when rows were added. `node` is the button that shows new rows.
  constructor(view, grown) {
    this.view = view;
    this.grown = grown;
    this.wasReady = sourceOf(view.source)?.state.ready;
    this.node = h("button", { class: "fresh", hidden: true, on: { click: () => this.#show() } });
  }

  hide() {
    this.node.hidden = true;
  }

  // The source has changed.
  async look() {
    const { pages, paths, source } = this.view;
    if (pages.total === null) return;
    const reading = !this.wasReady;
    this.wasReady = sourceOf(source)?.state.ready;
    const params = new URLSearchParams(pages.params);
    params.set("limit", "1");
    const answer = await get(paths.rollouts, params).catch(() => null);
    if (!answer || pages !== this.view.pages) return;
    const more = answer.total - pages.total;
    if (pages.total && !(reading && !this.view.params.get("sort"))) this.#offer(more);
    else if (more > 0 && pages.total) this.#add(answer);
    else await pages.refresh();
  }

  #add(answer) {
    this.view.pages.grow(answer.total);
    this.view.list.setTotal(answer.total);
    this.grown(answer);
  }

  #offer(more) {
    this.node.textContent = more > 0 ? `${count(more)} new` : "Changed";
    this.node.setAttribute("aria-label", more > 0 ? `Show ${counted(more, "new rollout")}` : "Show the changes");
    this.node.hidden = false;
  }

  #show() {
    this.hide();
    this.view.grid.focus({ preventScroll: true });
    this.view.pages.refresh();
  }
}
