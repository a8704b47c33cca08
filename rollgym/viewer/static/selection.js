// The selected row of the list: by keys, by a click, or by the address. Its id is kept, so that it stays
// selected when new rows move it.

import { get } from "./api.js";
import { changed } from "./filter_params.js";
import { address, note } from "./router.js";

const NOTE_PAUSE = 250;

export class Selection {
  // `view` is the list: its `pages`, `list`, `grid`, `params`, `paths` and `path` are the present ones.
  constructor(view) {
    this.view = view;
    this.row = null; // {index, id | null}
  }

  // Starts with another order or filter: the saved selection, or the row in the address.
  begin(row) {
    this.row = row;
    const id = this.view.params.get("sel");
    if (id && !row) this.#find(id);
  }

  destroy() {
    clearTimeout(this.noting);
  }

  // `now`: puts it into the address immediately.
  select(index, { scroll = true, now = false } = {}) {
    const { pages, list, grid } = this.view;
    if (pages.total === null) {
      this.row = { index: Math.max(0, index), id: null }; // of a row that is not loaded yet
      return;
    }
    if (!pages.total) return;
    const at = Math.min(Math.max(index, 0), pages.total - 1);
    const before = this.row?.index;
    this.row = { index: at, id: pages.row(at)?.id ?? null };
    if (scroll) list.scrollToIndex(at);
    for (const one of new Set([before, at])) this.#mark(one);
    grid.setAttribute("aria-activedescendant", `row-${at}`);
    clearTimeout(this.noting);
    // Not at every repetition of a key that is held.
    if (now) this.note();
    else this.noting = setTimeout(() => this.note(), NOTE_PAUSE);
  }

  // Puts it into the address.
  note() {
    clearTimeout(this.noting);
    const { params, path } = this.view;
    if (!this.row?.id || params.get("sel") === this.row.id) return;
    this.view.params = changed(params, { sel: this.row.id });
    note(address(path, this.view.params));
  }

  // After rows were loaded: the selected one may have moved, or its id is known now.
  resolve() {
    if (this.row) this.#resolve(this.row);
    this.#bringIntoView();
  }

  #resolve({ id, index }) {
    const { pages, list } = this.view;
    if (id === null) {
      this.select(index, { scroll: false });
    } else if (pages.row(index) && pages.row(index).id !== id) {
      const found = pages.indexOf((entry) => entry.id === id);
      this.row = found === null ? null : { id, index: found };
      list.refresh();
    }
  }

  // Finds the row of the id in the address, anywhere in the list.
  async #find(id) {
    const { pages, paths } = this.view;
    try {
      const place = await get(paths.neighbours(id), pages.params);
      if (pages !== this.view.pages || this.row || place.position === null) return;
      this.row = { index: place.position - 1, id };
      this.goTo = this.row.index;
      this.#bringIntoView();
    } catch {
      // It does not exist or does not match the filter: nothing is selected.
    }
  }

  #bringIntoView() {
    const { pages, list } = this.view;
    if (this.goTo === undefined || pages.total === null) return;
    list.scrollToIndex(this.goTo, { align: "center" });
    list.refresh();
    this.goTo = undefined;
  }

  #mark(index) {
    const row = index === undefined ? null : this.view.list.row(index);
    if (!row) return;
    const selected = this.row?.index === index;
    row.classList.toggle("is-selected", selected);
    row.setAttribute("aria-selected", String(selected));
  }
}
