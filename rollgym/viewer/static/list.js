// The list of rollouts: filtered, sorted, of any length. The address has the filter, the order, the
// columns and the selected row; the history entry has the scroll position.

import { source as pathsOf, withQuery } from "./api.js";
import { chosen, columnMenu, columnsOf, layout, usualColumns } from "./columns.js";
import { fill, h, refill, rem } from "./dom.js";
import { changed, filterOf, isFiltered } from "./filter_params.js";
import { FilterBar } from "./filters.js";
import { FixedList } from "./fixed_list.js";
import { FreshRows } from "./fresh_rows.js";
import { keys } from "./keyboard.js";
import { menu } from "./menu.js";
import { empty, failure, nothingYet, refusal } from "./notices.js";
import { Pages } from "./pages.js";
import { address, navigate, onLeave, visit } from "./router.js";
import { Selection } from "./selection.js";
import { nameCause, onVersion } from "./state.js";
import {
  exportWords, NARROW, rolloutCard, rolloutCells, sortChoice, standIns, tableHead, totalWords,
} from "./table.js";

const ROW = 2.125; // rem
const CARD = 3.875;
const AS_WRITTEN = { title: "As written", sort: "record" };

export function listView(container, match, params) {
  return new List(container, match.source, params);
}

class List {
  constructor(container, source, params) {
    this.container = container;
    this.source = source;
    this.paths = pathsOf(source);
    this.path = `/s/${encodeURIComponent(source)}/rollouts`;
    this.selection = new Selection(this);
    this.repeated = false; // whether any row has a repeat other than 0
    this.usual = null; // the default columns of this source, once they are known
    this.fresh = new FreshRows(this, (answer) => this.#drawTotal(answer));
    container.className = "fills list";
    this.#build(params);
    this.narrow = matchMedia(NARROW);
    this.onNarrow = () => this.#table();
    this.narrow.addEventListener("change", this.onNarrow);
    this.grid.addEventListener("scroll", () => this.#wantVisible(), { passive: true });
    onLeave(() => ({ scroll: this.grid.scrollTop, selected: this.selection.row }));
    this.offKeys = keys(this.#shortcuts(), "List");
    this.offVersion = onVersion(source, () => this.fresh.look());
    this.update(params);
    this.#learnColumns();
  }

  // Rows are requested after the columns that have values are known, so that columns do not jump.
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
    this.selection.destroy();
    this.filters.destroy();
    this.narrow.removeEventListener("change", this.onNarrow);
    this.offKeys();
    this.offVersion();
    this.pages?.destroy();
    this.list?.destroy();
  }

  #build(params) {
    this.total = h("span", { class: "total", role: "status" });
    this.exported = h("span", {});
    this.sorting = h("span", { class: "sort-choice" });
    this.columnMenu = menu({
      label: "Columns", kind: "end", content: () => columnMenu({
        facets: this.paths.facets, shown: () => this.columns, choose: (ids) => this.#choose(ids),
      }),
    });
    this.filters = new FilterBar({
      source: this.source, params,
      onChange: (wanted, how) => navigate(address(this.path, changed(wanted, { sel: null })), how),
      extra: [this.total, this.sorting, this.columnMenu, this.exported],
    });
    this.grid = h("div", {
      class: "table is-new", role: "grid", tabindex: "0", "aria-label": "Rollouts", "aria-busy": "true",
    });
    this.container.append(h("h1", { class: "visually-hidden", text: "Rollouts" }), this.filters.node,
      h("div", { class: "table-frame" }, this.grid, this.fresh.node));
  }

  // The query for the server: the filter and the order.
  #query(params) {
    const query = filterOf(params);
    for (const name of ["sort", "order"]) if (params.get(name)) query.set(name, params.get(name));
    return query;
  }

  #begin(query) {
    this.pages?.destroy();
    this.queried = query;
    this.search = null;
    this.counted = null; // the latest response with the total
    this.fresh.hide();
    const visited = visit();
    this.restore = visited?.scroll ?? 0;
    this.pages = new Pages({
      path: this.paths.rollouts,
      params: new URLSearchParams(query),
      rowsOf: (answer) => answer.entries,
      changed: (news) => this.#arrived(news),
      failed: (error) => this.#failed(error),
    });
    this.selection.begin(visited?.selected ?? null);
    this.grid.setAttribute("aria-busy", "true");
    this.#table();
    if (this.usual) this.#wantFirst();
  }

  #wantFirst() {
    const first = Math.floor(this.restore / this.rowHeight);
    this.pages.want(first, first + 1);
  }

  // Draws the table again, for other columns or another width.
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

  // The number of grey rows for a list of unknown length.
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
    // Requested together, once all visible rows are known.
    if (!entry) queueMicrotask(() => this.#wantVisible());
    const selected = this.selection.row?.index === index;
    const row = h("div", {
      class: `row${selected ? " is-selected" : ""}${entry?.is_outcome === false ? " is-earlier" : ""}`,
      role: "row", id: `row-${index}`, "aria-rowindex": index + 2, "aria-selected": String(selected),
      on: { click: () => entry && this.selection.select(index, { scroll: false, now: true }) },
    });
    if (!entry) fill(row, standIns(index, this.narrow.matches ? 1 : this.columns.length));
    else if (this.narrow.matches) fill(row, rolloutCard(entry, this.#address(entry), this));
    else fill(row, rolloutCells(entry, this.columns, this.#address(entry)));
    return row;
  }

  #wantVisible() {
    if (this.list && this.pages.total !== null) this.pages.want(...this.list.visible());
  }

  #address(entry) {
    return address(`${this.path}/${encodeURIComponent(entry.id)}`, this.#query(this.params));
  }

  #arrived({ page, total, search, answer }) {
    this.search = search;
    this.grid.setAttribute("aria-busy", "false");
    this.grid.setAttribute("aria-rowcount", total + 1);
    const first = this.restore;
    this.repeated ||= this.pages.pages.get(page).some(({ repeat }) => repeat > 0);
    this.list.setTotal(total);
    if (first !== null) {
      this.grid.scrollTop = first;
      this.restore = null;
    }
    this.list.refresh();
    this.selection.resolve();
    this.#nameCause(page);
    this.filters.update(this.params, search);
    this.#drawTotal(answer);
    fill(this.notice, total ? null : this.#nothing());
  }

  #drawTotal(answer) {
    this.counted = answer;
    this.total.textContent = totalWords(answer);
    this.#drawExport();
  }

  #nothing() {
    if (isFiltered(this.params)) {
      if (this.search && !this.search.done) return empty("No matches so far");
      const clear = () => navigate(this.path);
      return empty("No matching rollouts", h("button", { on: { click: clear } }, "Clear filters"));
    }
    return nothingYet(this.source, "No rollouts yet", "Rollouts appear here as soon as they are written.");
  }

  #failed(error) {
    this.grid.setAttribute("aria-busy", "false");
    if (this.pages.total === null) this.list.setTotal(0); // grey rows would suggest that rows are loading
    const go = (params) => navigate(address(this.path, params));
    fill(this.notice, refusal(error, this.params, go) ?? failure(error, () => {
      fill(this.notice);
      this.pages.refresh();
    }));
  }

  // In a list that is filtered by a cause, each entry has its text.
  #nameCause(page) {
    const id = this.params.get("cause");
    const cause = id && this.pages.pages.get(page)?.[0]?.cause;
    if (cause) nameCause(this.source, id, cause);
  }

  #drawExport() {
    fill(this.exported, h("a", {
      class: "button", download: "", href: withQuery(this.paths.export, filterOf(this.params)),
      "aria-label": exportWords(this.counted),
      data: { tip: "Download the filtered rollouts as JSONL" },
    }, "Export"));
  }

  #choose(ids) {
    const cols = chosen(ids, this.usual);
    navigate(address(this.path, changed(this.params, { cols })), { replace: true });
  }

  #sort(sort, order) {
    const usual = sort === AS_WRITTEN.sort && order === "asc";
    navigate(address(this.path, changed(this.params, {
      sort: usual ? null : sort, order: usual || order === "asc" ? null : order, sel: null,
    })));
  }

  #shortcuts() {
    const { selection } = this;
    const move = (by) => () =>
      selection.select(selection.row ? selection.row.index + by : this.list.visible()[0]);
    const page = () => Math.max(1, this.list.visible()[1] - this.list.visible()[0] - 1);
    const open = () => {
      const entry = selection.row && this.pages.row(selection.row.index);
      if (entry) {
        selection.note();
        navigate(this.#address(entry));
      }
    };
    const next = { words: "Next rollout", run: move(1) };
    const previous = { words: "Previous rollout", run: move(-1) };
    return {
      j: next, ArrowDown: next, k: previous, ArrowUp: previous,
      Enter: { words: "Open rollout", run: open },
      "/": { words: "Search", run: () => this.filters.focus() },
      Home: { words: "First rollout", run: () => selection.select(0) },
      End: { words: "Last rollout", run: () => selection.select(this.pages.total - 1) },
      PageDown: { words: "Page down", run: () => move(page())() },
      PageUp: { words: "Page up", run: () => move(-page())() },
    };
  }
}
