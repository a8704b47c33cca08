// What stands before and after a rollout in the list that one came from, and the way there.

import { get } from "./api.js";
import { fill, h, refill } from "./dom.js";
import { count } from "./format.js";
import { link, navigate } from "./router.js";

export class Neighbours {
  // `path` is where to ask for them; `address(id)` leads to one.
  constructor({ path, address }) {
    this.path = path;
    this.address = address;
    this.asking = null;
    this.known = null;
    this.wanted = null; // the one that was asked for before it was known
    this.node = h("nav", { class: "walk", "aria-label": "Neighbours in the list" });
  }

  // In the list with this filter.
  async ask(filter) {
    this.asking?.abort();
    this.asking = new AbortController();
    const { signal } = this.asking;
    try {
      const known = await get(this.path, filter, { signal });
      if (signal.aborted) return;
      this.known = known;
    } catch (error) {
      if (signal.aborted) return;
      this.known = { error };
    }
    this.#draw();
    if (this.wanted) this.goTo(this.wanted);
  }

  // `which`: "previous" or "next".
  goTo(which) {
    this.wanted = this.known ? null : which;
    const id = this.known?.[which];
    if (id) navigate(this.address(id));
  }

  destroy() {
    this.asking?.abort();
  }

  #draw() {
    const { previous, next, position, total, error } = this.known;
    if (error) {
      fill(this.node, h("span", { class: "muted", title: error.message }, "no neighbours"));
      return;
    }
    const way = (id, sign, name) => id
      ? link({ href: this.address(id), class: "button", "aria-label": name, data: { tip: name, key: name } }, sign)
      : h("button", { type: "button", disabled: true, "aria-label": name }, sign);
    refill(this.node,
      h("span", { class: "muted" }, position ? `${count(position)} of ${count(total)}` : `not among ${count(total)}`),
      way(previous, "‹", "Previous rollout ([)"), way(next, "›", "Next rollout (])"));
  }
}
