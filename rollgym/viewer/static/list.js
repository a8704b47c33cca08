// The list of rollouts: filtered, sorted, as long as it may be. The address has the filter, the
// order, the columns and the selected row; the history entry how far one had scrolled.

import { get, source as pathsOf, withQuery } from "./api.js";
import { chosen, columnChoices, columnsOf, layout, usualColumns } from "./columns.js";
import { fill, h, refill, rem } from "./dom.js";
import { FilterBar, changed, filterOf, isFiltered } from "./filters.js";
import { FixedList } from "./fixed_list.js";
import { count, counted } from "./format.js";
import { keys } from "./keyboard.js";
import { menu } from "./menu.js";
import { empty, failure } from "./notices.js";
import { Pages } from "./pages.js";
import { address, navigate, note, onLeave, visit } from "./router.js";
import { nameCause, onVersion, sourceOf } from "./state.js";
import { NARROW, rolloutCard, rolloutCells, sortChoice, standIns, tableHead } from "./table.js";

const ROW = 2.125; // rem
const CARD = 3.875;
const AS_WRITTEN = { title: "As written", sort: "record" };
const NOTE_PAUSE = 250;

export function listView(container, match, params) {
  return new List(container, match.source, params);
}

class List {
  constructor(container, source, params) {
    this.container = container;
    this.source = source;
    this.paths = pathsOf(source);
    this.path = `/s/${encodeURIComponent(source)}/rollouts`;
    this.selected = null; // {index, id | null}
    this.usual = null; // the columns that are shown where none were chosen, once they are known
    this.wasReady = sourceOf(source)?.state.ready;
    container.className = "fills list";
    this.#build(params);
    this.narrow = matchMedia(NARROW);
    this.onNarrow = () => this.#table();
    this.narrow.addEventListener("change", this.onNarrow);
    this.grid.addEventListener("scroll", () => this.#wantVisible(), { passive: true });
    onLeave(() => ({ scroll: this.grid.scrollTop, selected: this.selected }));
    this.offKeys = keys(this.#shortcuts(), "List");
    this.offVersion = onVersion(source, () => this.#sourceChanged());
    this.update(params);
    this.#learnColumns();
  }

  // Rows are asked for once it is known which columns have anything to show, or columns would jump.
  async #learnColumns() {
    this.usual = await usualColumns(this.source);
    if (this.ended) return;
    this.grid.classList.remove("is-new");
    this.update(this.params);
    this.#wantFirst();
  }

  update(params) {
    this.params = params;
    const query = this.#query(params).toString();
    const columns = columnsOf(params, this.usual).map(({ id }) => id).join(",");
    const redraw = columns !== this.columnIds;
    this.columnIds = columns;
    if (query !== this.queried) this.#begin(query);
    else if (redraw) this.#table();
    this.filters.update(params, this.search);
    this.#drawExport();
  }

  destroy() {
    this.ended = true;
    clearTimeout(this.noting);
    this.filters.destroy();
    this.narrow.removeEventListener("change", this.onNarrow);
    this.offKeys();
    this.offVersion();
    this.pages?.destroy();
    this.list?.destroy();
  }

  #build(params) {
    this.total = h("span", { class: "total", role: "status" });
    this.fresh = h("button", { class: "fresh", hidden: true, on: { click: () => this.#showNew() } });
    this.exported = h("span", {});
    this.sorting = h("span", { class: "sort-choice" });
    this.columnMenu = menu({
      label: "Columns", kind: "end", content: () => this.#columnMenu(),
    });
    this.filters = new FilterBar({
      source: this.source, params,
      onChange: (wanted, how) => navigate(address(this.path, changed(wanted, { sel: null })), how),
      extra: [this.fresh, this.total, this.sorting, this.columnMenu, this.exported],
    });
    this.grid = h("div", {
      class: "table is-new", role: "grid", tabindex: "0", "aria-label": "Rollouts", "aria-busy": "true",
    });
    this.container.append(h("h1", { class: "visually-hidden", text: "Rollouts" }), this.filters.node,
      h("div", { class: "table-frame" }, this.grid));
  }

  // What the server is asked: the filter and the order.
  #query(params) {
    const query = filterOf(params);
    for (const name of ["sort", "order"]) if (params.get(name)) query.set(name, params.get(name));
    return query;
  }

  #begin(query) {
    this.pages?.destroy();
    this.queried = query;
    this.search = null;
    this.fresh.hidden = true;
    const visited = visit();
    this.selected = visited?.selected ?? null;
    this.restore = visited?.scroll ?? 0;
    this.pages = new Pages({
      path: this.paths.rollouts,
      params: new URLSearchParams(query),
      rowsOf: (answer) => answer.entries,
      changed: (news) => this.#arrived(news),
      failed: (error) => this.#failed(error),
    });
    this.grid.setAttribute("aria-busy", "true");
    this.#table();
    if (this.usual) this.#wantFirst();
    const id = this.params.get("sel");
    if (id && !this.selected) this.#findSelected(id);
  }

  #wantFirst() {
    const first = Math.floor(this.restore / this.rowHeight);
    this.pages.want(first, first + 1);
  }

  // The row of an id that the address names, wherever it is in the list.
  async #findSelected(id) {
    const pages = this.pages;
    try {
      const place = await get(this.paths.neighbours(id), pages.params);
      if (pages !== this.pages || this.selected || place.position === null) return;
      this.selected = { index: place.position - 1, id };
      this.goTo = this.selected.index;
      this.#bringIntoView();
    } catch {
      // It is gone, or filtered away: then nothing is selected.
    }
  }

  // Draws the table anew: other columns, or another width.
  #table() {
    const scroll = this.list ? this.grid.scrollTop : this.restore;
    this.list?.destroy();
    this.columns = columnsOf(this.params, this.usual);
    const narrow = this.narrow.matches;
    this.rowHeight = rem(narrow ? CARD : ROW);
    this.grid.classList.toggle("cards", narrow);
    const { template, width } = layout(this.columns);
    this.grid.style.setProperty("--columns", template);
    this.grid.style.setProperty("--width", `${width}rem`);
    this.notice = h("div", { class: "table-notice" });
    const sorting = this.#sorting();
    refill(this.grid, narrow ? null : tableHead(sorting), this.notice);
    refill(this.sorting, narrow ? sortChoice({ ...sorting, columns: [AS_WRITTEN, ...this.columns] }) : null);
    this.grid.setAttribute("aria-colcount", this.columns.length);
    const total = this.pages.total;
    this.list = new FixedList({
      container: this.grid, rowHeight: this.rowHeight, total: total ?? this.#standIns(),
      top: narrow ? 0 : this.rowHeight, render: (index) => this.#row(index),
    });
    if (total !== null) this.grid.scrollTop = scroll;
  }

  // How many grey rows stand for a list of unknown length.
  #standIns() {
    return Math.max(1, Math.ceil(this.grid.clientHeight / this.rowHeight) - 1);
  }

  #sorting() {
    return {
      columns: this.columns,
      sort: this.params.get("sort") ?? AS_WRITTEN.sort,
      order: this.params.get("order"),
      onSort: (sort, order) => this.#sort(sort, order),
    };
  }

  #row(index) {
    const entry = this.pages.row(index);
    // Asked for together, once all rows in view are known.
    if (!entry) queueMicrotask(() => this.#wantVisible());
    const selected = this.selected?.index === index;
    const row = h("div", {
      class: `row${selected ? " is-selected" : ""}${entry?.standing === false ? " is-earlier" : ""}`,
      role: "row", id: `row-${index}`, "aria-rowindex": index + 2, "aria-selected": String(selected),
      on: { click: () => entry && this.#select(index, { scroll: false, now: true }) },
    });
    if (!entry) fill(row, standIns(index, this.narrow.matches ? 1 : this.columns.length));
    else if (this.narrow.matches) fill(row, rolloutCard(entry, this.#address(entry)));
    else fill(row, rolloutCells(entry, this.columns, this.#address(entry)));
    return row;
  }

  #wantVisible() {
    if (this.list && this.pages.total !== null) this.pages.want(...this.list.visible());
  }

  #address(entry) {
    return address(`${this.path}/${encodeURIComponent(entry.id)}`, this.#query(this.params));
  }

  #arrived({ page, total, search }) {
    this.search = search;
    this.grid.setAttribute("aria-busy", "false");
    this.grid.setAttribute("aria-rowcount", total + 1);
    const first = this.restore;
    this.list.setTotal(total);
    if (first !== null) {
      this.grid.scrollTop = first;
      this.restore = null;
    }
    this.list.refresh();
    this.#resolveSelected();
    this.#bringIntoView();
    this.#nameCause(page);
    this.filters.update(this.params, search);
    this.#drawTotal(total);
    fill(this.notice, total ? null : this.#nothing());
  }

  #drawTotal(total) {
    this.total.textContent = counted(total, "rollout");
    this.#drawExport();
  }

  #nothing() {
    if (isFiltered(this.params)) {
      if (this.search && !this.search.done) return empty("Nothing found so far");
      const clear = () => navigate(this.path);
      return empty("No rollout matches", h("button", { on: { click: clear } }, "Clear the filters"));
    }
    const ready = sourceOf(this.source)?.state.ready;
    return ready
      ? empty("No rollouts yet", "They appear here as they are written.") : empty("Reading the file…");
  }

  #failed(error) {
    this.grid.setAttribute("aria-busy", "false");
    if (this.pages.total === null) this.list.setTotal(0); // grey rows would say that some will come
    fill(this.notice, failure(error, () => {
      fill(this.notice);
      this.pages.refresh();
    }));
  }

  // Of a list filtered by a cause, each entry knows its words.
  #nameCause(page) {
    const id = this.params.get("cause");
    const cause = id && this.pages.pages.get(page)?.[0]?.cause;
    if (cause) nameCause(this.source, id, cause);
  }

  #drawExport() {
    const many = this.pages?.total;
    fill(this.exported, h("a", {
      class: "button", download: "", href: withQuery(this.paths.export, filterOf(this.params)),
      "aria-label": `Export ${many === null ? "the" : count(many)} rollouts as JSONL`,
      data: { tip: "Download the filtered rollouts as JSONL" },
    }, "Export"));
  }

  #columnMenu() {
    const box = h("div", { class: "columns-menu" });
    const draw = (fields) => refill(box, columnChoices(this.columns, fields, (ids) => {
      const cols = chosen(ids, this.usual);
      navigate(address(this.path, changed(this.params, { cols })), { replace: true });
      if (!ids.length) draw(fields);
    }));
    draw([]);
    get(this.paths.facets).then((facets) => draw(facets.fields ?? []), () => {});
    return box;
  }

  #sort(sort, order) {
    const usual = sort === AS_WRITTEN.sort && order === "asc";
    navigate(address(this.path, changed(this.params, {
      sort: usual ? null : sort, order: usual || order === "asc" ? null : order, sel: null,
    })));
  }

  #select(index, { scroll = true, now = false } = {}) {
    if (this.pages.total === null) {
      this.selected = { index: Math.max(0, index), id: null }; // of the rows that will come
      return;
    }
    if (!this.pages.total) return;
    const at = Math.min(Math.max(index, 0), this.pages.total - 1);
    const before = this.selected?.index;
    this.selected = { index: at, id: this.pages.row(at)?.id ?? null };
    if (scroll) this.list.scrollToIndex(at);
    for (const one of new Set([before, at])) this.#mark(one);
    this.grid.setAttribute("aria-activedescendant", `row-${at}`);
    this.#noteSelected(now);
  }

  #mark(index) {
    const row = index === undefined ? null : this.list.row(index);
    if (!row) return;
    const selected = this.selected?.index === index;
    row.classList.toggle("is-selected", selected);
    row.setAttribute("aria-selected", String(selected));
  }

  // Into the address, but not at every press of a key that is held.
  #noteSelected(now) {
    clearTimeout(this.noting);
    const write = () => {
      if (!this.selected?.id || this.params.get("sel") === this.selected.id) return;
      this.params = changed(this.params, { sel: this.selected.id });
      note(address(this.path, this.params));
    };
    if (now) write();
    else this.noting = setTimeout(write, NOTE_PAUSE);
  }

  // After rows came: the selected one may be elsewhere, or be known only now.
  #resolveSelected() {
    if (!this.selected) return;
    const { id, index } = this.selected;
    if (id === null) {
      this.#select(index, { scroll: false });
    } else if (this.pages.row(index) && this.pages.row(index).id !== id) {
      const found = this.pages.indexOf((entry) => entry.id === id);
      this.selected = found === null ? null : { id, index: found };
      this.list.refresh();
    }
  }

  #bringIntoView() {
    if (this.goTo === undefined || this.pages.total === null) return;
    this.list.scrollToIndex(this.goTo, { align: "center" });
    this.list.refresh();
    this.goTo = undefined;
  }

  // While a file is read for the first time rows only come behind the last; later they may come
  // anywhere, and the list waits to be asked.
  async #sourceChanged() {
    if (this.pages.total === null) return;
    const pages = this.pages;
    const reading = !this.wasReady;
    this.wasReady = sourceOf(this.source)?.state.ready;
    const params = new URLSearchParams(pages.params);
    params.set("limit", "1");
    const answer = await get(this.paths.rollouts, params).catch(() => null);
    if (!answer || pages !== this.pages) return;
    const more = answer.total - pages.total;
    if (!pages.total || (reading && !this.params.get("sort"))) {
      if (more > 0 && pages.total) {
        pages.grow(answer.total);
        this.list.setTotal(answer.total);
        this.#drawTotal(answer.total);
      } else {
        await pages.refresh();
      }
    } else {
      const words = more > 0 ? `Show ${counted(more, "new rollout")}` : "Show what changed";
      this.fresh.textContent = more > 0 ? `${count(more)} new` : "Changed";
      this.fresh.setAttribute("aria-label", words);
      this.fresh.hidden = false;
    }
  }

  #showNew() {
    this.fresh.hidden = true;
    this.grid.focus({ preventScroll: true });
    this.pages.refresh();
  }

  #shortcuts() {
    const move = (by) => () =>
      this.#select(this.selected ? this.selected.index + by : this.list.visible()[0]);
    const page = () => Math.max(1, this.list.visible()[1] - this.list.visible()[0] - 1);
    const open = () => {
      const entry = this.selected && this.pages.row(this.selected.index);
      if (entry) {
        this.#noteSelected(true);
        navigate(this.#address(entry));
      }
    };
    const next = { words: "Next rollout", run: move(1) };
    const previous = { words: "Previous rollout", run: move(-1) };
    return {
      j: next, ArrowDown: next, k: previous, ArrowUp: previous,
      Enter: { words: "Open the rollout", run: open },
      "/": { words: "Search", run: () => this.filters.focus() },
      Home: { words: "First rollout", run: () => this.#select(0) },
      End: { words: "Last rollout", run: () => this.#select(this.pages.total - 1) },
      PageDown: { words: "A page down", run: () => move(page())() },
      PageUp: { words: "A page up", run: () => move(-page())() },
    };
  }
}
