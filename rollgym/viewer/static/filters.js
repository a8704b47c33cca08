// The filter bar: controls that change the filters, and a chip for each active filter.

import { fill, h } from "./dom.js";
import { FilterMenus } from "./filter_menus.js";
import { changed, CHOICES, isNumber, NAMES, RANGES, SINGLE, valueWords } from "./filter_params.js";
import { count, cut, percent } from "./format.js";
import { causeName } from "./state.js";

// The chips: one for each active filter, with a button that removes it.

// The chips of a source's parameters. Their buttons call `change({name: value | [values] | null})`.
export function chipsOf(params, source, change) {
  const all = active(params, source);
  const chips = all.map(([label, changes]) => chip(label, () => change(changes)));
  if (chips.length > 1) {
    const clear = () => change(Object.fromEntries(NAMES.map((name) => [name, null])));
    chips.push(h("button", { class: "quiet clear", on: { click: clear } }, "Clear all"));
  }
  return chips;
}

// The label of each filter, and the changes that remove it.
function active(params, source) {
  const found = [];
  const add = (label, changes) => found.push([label, changes]);
  const q = params.get("q");
  if (q) add(`“${cut(q, 40)}”`, { q: null });
  const success = params.get("success");
  if (success) add(success === "true" ? "success" : "no success", { success: null });
  for (const [name, title] of Object.entries(CHOICES)) {
    const values = params.getAll(name);
    for (const value of values) {
      add(`${title.toLowerCase()}: ${cut(valueWords(name, value), 40)}`,
        { [name]: values.filter((one) => one !== value) });
    }
  }
  for (const [name, title] of Object.entries(SINGLE)) {
    const value = params.get(name);
    const said = value === null ? "" : singleWords(source, name, value);
    if (said) add(`${title.toLowerCase()}: ${cut(said, 60)}`, { [name]: null });
  }
  for (const [name, about] of Object.entries(RANGES)) {
    const label = rangeWords(about, params.get(`min_${name}`), params.get(`max_${name}`));
    if (label) add(label, { [`min_${name}`]: null, [`max_${name}`]: null });
  }
  return found;
}

function chip(label, remove) {
  return h("span", { class: "chip" },
    h("span", { text: label, title: label }),
    h("button", {
      class: "quiet", "aria-label": `Remove the filter ${label}`, on: { click: remove },
    }, "✕"));
}

function singleWords(source, name, value) {
  return name === "cause" ? causeName(source, value) ?? `no. ${value}` : value;
}

function rangeWords({ title, format }, low, high) {
  if (low === null && high === null) return null;
  const show = (value) => (isNumber(value) ? format(Number(value)) : `“${cut(value, 20)}” (not a number)`);
  const name = title.replace(" (s)", "").toLowerCase();
  if (low === null) return `${name} ≤ ${show(high)}`;
  if (high === null) return `${name} ≥ ${show(low)}`;
  return low === high ? `${name} = ${show(low)}` : `${name} ${show(low)} – ${show(high)}`;
}

const TYPING_PAUSE = 300;

// The bar. `onChange(params, {replace})` gets the new parameters, and whether they only go on with
// what was typed before; `update(params, search)` draws others, with how far a search of the text
// has come.
export class FilterBar {
  constructor({ source, params, onChange, extra = [] }) {
    this.source = source;
    this.params = params;
    this.onChange = onChange;
    this.typing = null; // the timer of typed text that was not sent yet
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

  // Forgets typed text that was not sent yet.
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

  // More typing replaces the history entry; any other change adds one.
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

  // Keeps the keyboard focus among the chips when one is removed.
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
      h("progress", { max: "1", value: share, "aria-label": "Share of the files that was searched" }),
      `${percent(Math.floor(share * 100) / 100)}, ${count(search.matches)} found`);
  }
}
