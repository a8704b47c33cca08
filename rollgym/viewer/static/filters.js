// The bar of controls that change what is filtered, with a chip for each filter that is active.

import { fill, h } from "./dom.js";
import { chipsOf } from "./filter_chips.js";
import { FilterMenus } from "./filter_menus.js";
import { changed } from "./filter_params.js";
import { count, percent } from "./format.js";

const TYPING_PAUSE = 300;

// The bar. `onChange(params, {replace})` gets the new parameters, and whether they only go on with
// what was typed before; `update(params, search)` draws others, with how far a search of the text
// has come.
export class FilterBar {
  constructor({ source, params, onChange, extra = [] }) {
    this.source = source;
    this.params = params;
    this.onChange = onChange;
    this.typing = null; // the timer of what was typed and is not asked for yet
    this.search = h("input", {
      type: "search", class: "search", placeholder: "Search the text of rollouts", value: params.get("q"),
      "aria-label": "Search the text of rollouts", autocomplete: "off", spellcheck: "false",
      on: { input: () => this.#typed(), keydown: (event) => this.#key(event) },
    });
    this.progress = h("span", { class: "search-progress", role: "status" });
    const menus = new FilterMenus({
      source, params: () => this.params, change: (changes) => this.#change(changes),
    });
    this.buttons = h("div", { class: "filter-buttons" }, menus.nodes);
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Active filters" });
    this.node = h("div", { class: "filters" },
      h("div", { class: "filter-bar" },
        h("div", { class: "search-box" }, this.search, this.progress),
        this.buttons, h("div", { class: "filter-extra" }, extra)),
      this.chips);
    this.update(params, null);
  }

  update(params, search) {
    this.params = params;
    const used = document.activeElement === this.search || this.typing !== null;
    if (!used) this.search.value = params.get("q") ?? "";
    this.#drawProgress(params.get("q") ? search : null);
    this.#drawChips();
    for (const button of this.buttons.querySelectorAll("[data-filters]")) {
      const active = button.dataset.filters.split(" ").some((name) => this.params.has(name));
      button.classList.toggle("is-active", active);
    }
  }

  focus() {
    this.search.focus();
    this.search.select();
  }

  // What was typed last is not asked for any more.
  destroy() {
    clearTimeout(this.typing);
  }

  #change(changes, { replace = false } = {}) {
    this.onChange(changed(this.params, changes), { replace });
  }

  #typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.#ask(), TYPING_PAUSE);
  }

  // Typing on replaces what was typed before; any other filter can be taken back.
  #ask() {
    clearTimeout(this.typing);
    this.typing = null;
    const q = this.search.value.trim() || null;
    const before = this.params.get("q");
    if (q !== before) this.#change({ q }, { replace: Boolean(q && before) });
  }

  #key(event) {
    if (event.key === "Enter") {
      this.#ask();
    } else if (event.key === "Escape") {
      // Browsers would empty the field; one only wants to leave it.
      event.preventDefault();
      this.search.blur();
    }
  }

  // Whoever removes one filter after another with the keyboard stays among them.
  #drawChips() {
    const buttons = () => [...this.chips.querySelectorAll("button")];
    const at = buttons().indexOf(document.activeElement);
    fill(this.chips, chipsOf(this.params, this.source, (changes) => this.#change(changes)));
    this.chips.hidden = !this.chips.childNodes.length;
    if (at >= 0) (buttons()[Math.min(at, buttons().length - 1)] ?? this.search).focus({ preventScroll: true });
  }

  #drawProgress(search) {
    if (!search || search.done) {
      fill(this.progress);
      return;
    }
    const share = search.size ? search.read / search.size : 0;
    fill(this.progress,
      h("progress", { max: "1", value: share, "aria-label": "How much has been searched" }),
      `${percent(Math.floor(share * 100) / 100)}, ${count(search.matches)} found`);
  }
}
