// Tasks with their repeats as a row of cells. A cell is filled as high as its reward; failed repeats are
// hatched and blocked ones checked, so that colour is not the only sign.

import { source as pathsOf } from "./api.js";
import { fill, h, refill, rem } from "./dom.js";
import { changed, filterOf, isFiltered } from "./filter_params.js";
import { FilterBar } from "./filters.js";
import { FixedList } from "./fixed_list.js";
import { count, counted, number } from "./format.js";
import { keys } from "./keyboard.js";
import { empty, failure, nothingYet, refusal } from "./notices.js";
import { isBlocked, repeatWords } from "./outcome.js";
import { Pages } from "./pages.js";
import { address, link, navigate, onLeave, visit } from "./router.js";
import { onVersion } from "./state.js";
import { NARROW, sortChoice, tableHead } from "./table.js";

const ROW = 2.5; // rem
const CARD = 4.25;
const MANY_CELLS = 24;
const COLUMNS = [
  { title: "Task", sort: "task", number: true },
  { title: "Title", sort: "title" },
  { title: "Domain" },
  { title: "Difficulty", number: true },
  { title: "Mean", sort: "mean", number: true },
  { title: "Success", sort: "successes", number: true },
  { title: "Repeats", sort: "rollouts" },
];

const LEGEND = [
  ["reward 1", "reward-4", 1], ["reward ½", "reward-2", 0.5], ["reward 0", "reward-0", 0],
  ["blocked", "blocked"], ["failed", "failed"], ["not judged", "completed"], ["omitted", "omitted"],
];

export function tasksView(container, match, params) {
  return new Tasks(container, match.source, params);
}

class Tasks {
  constructor(container, source, params) {
    this.container = container;
    this.source = source;
    this.root = `/s/${encodeURIComponent(source)}/`;
    this.total = h("span", { class: "total", role: "status" });
    this.sorting = h("span", { class: "sort-choice" });
    this.filters = new FilterBar({
      source, params, extra: [this.total, this.sorting],
      onChange: (wanted, how) => navigate(address(`${this.root}tasks`, wanted), how),
    });
    this.table = h("div", {
      class: "table tasks", role: "table", "aria-label": "Tasks", tabindex: "0", data: { scrolls: "" },
    });
    container.className = "fills";
    container.append(
      h("h1", { class: "visually-hidden", text: "Tasks" }),
      this.filters.node,
      h("div", { class: "table-frame" }, this.table),
      legend());
    this.narrow = matchMedia(NARROW);
    this.onNarrow = () => this.#begin();
    this.narrow.addEventListener("change", this.onNarrow);
    this.table.addEventListener("scroll", () => this.#wantVisible(), { passive: true });
    onLeave(() => ({ scroll: this.table.scrollTop }));
    this.offKeys = keys(this.#shortcuts(), "Tasks");
    this.offVersion = onVersion(source, () => this.pages.refresh());
    this.update(params);
  }

  update(params) {
    this.params = params;
    this.filters.update(params, null);
    this.#begin();
  }

  destroy() {
    this.narrow.removeEventListener("change", this.onNarrow);
    this.filters.destroy();
    this.offKeys();
    this.offVersion();
    this.pages.destroy();
    this.list.destroy();
  }

  #begin() {
    this.pages?.destroy();
    this.list?.destroy();
    const query = filterOf(this.params);
    for (const name of ["sort", "order"]) if (this.params.get(name)) query.set(name, this.params.get(name));
    this.restore = visit()?.scroll ?? 0;
    this.pages = new Pages({
      path: pathsOf(this.source).tasks, params: query,
      rowsOf: (answer) => answer.tasks,
      changed: (news) => this.#arrived(news),
      failed: (error) => this.#failed(error),
    });
    const narrow = this.narrow.matches;
    this.table.classList.toggle("cards", narrow);
    this.notice = h("div", { class: "table-notice" });
    const sorting = this.#sorting();
    refill(this.table, narrow ? null : tableHead(sorting), this.notice);
    refill(this.sorting, narrow ? sortChoice(sorting) : null);
    this.rowHeight = rem(narrow ? CARD : ROW);
    this.list = new FixedList({
      container: this.table, rowHeight: this.rowHeight, top: narrow ? 0 : this.rowHeight,
      total: Math.max(1, Math.ceil(this.table.clientHeight / this.rowHeight) - 1),
      render: (index) => this.#row(index),
    });
    const first = Math.floor(this.restore / this.rowHeight);
    this.pages.want(first, first + 1);
  }

  #shortcuts() {
    const next = { words: "Next task", run: () => this.#walk(1) };
    const previous = { words: "Previous task", run: () => this.#walk(-1) };
    return {
      j: next, ArrowDown: next, k: previous, ArrowUp: previous,
      ArrowRight: { words: "Next repeat", run: () => this.#walkAlong(1) },
      ArrowLeft: { words: "Previous repeat", run: () => this.#walkAlong(-1) },
      "/": { words: "Search", run: () => this.filters.focus() },
    };
  }

  // Moves the focus from one task to another; to the first visible one if none has it.
  #walk(by) {
    const row = document.activeElement.closest(".row[data-index]");
    const index = row ? Number(row.dataset.index) + by : this.list.visible()[0];
    if (index < 0 || index >= (this.pages.total ?? 0)) return;
    this.list.scrollToIndex(index);
    this.list.row(index)?.querySelector("a")?.focus({ preventScroll: true });
  }

  #walkAlong(by) {
    const links = [...document.activeElement.closest(".row[data-index]")?.querySelectorAll("a") ?? []];
    links[links.indexOf(document.activeElement) + by]?.focus();
  }

  #sorting() {
    return {
      columns: COLUMNS,
      sort: this.params.get("sort") ?? "task",
      order: this.params.get("order"),
      onSort: (sort, order) => navigate(address(`${this.root}tasks`,
        changed(this.params, { sort, order: order === "asc" ? null : order }))),
    };
  }

  #arrived({ total, search }) {
    this.list.setTotal(total);
    if (this.restore !== null) {
      this.table.scrollTop = this.restore;
      this.restore = null;
    }
    this.list.refresh();
    this.table.setAttribute("aria-rowcount", total + 1);
    this.total.textContent = counted(total, "task");
    this.filters.update(this.params, search);
    fill(this.notice, total ? null : this.#nothing());
  }

  #failed(error) {
    if (this.pages.total === null) this.list.setTotal(0); // grey rows would suggest that rows are loading
    const go = (params) => navigate(address(`${this.root}tasks`, params));
    fill(this.notice, refusal(error, this.params, go) ?? failure(error, () => {
      fill(this.notice);
      this.pages.refresh();
    }));
  }

  #nothing() {
    if (isFiltered(this.params)) {
      return empty("No matching tasks",
        h("button", { on: { click: () => navigate(`${this.root}tasks`) } }, "Clear filters"));
    }
    return nothingYet(this.source, "No tasks yet");
  }

  #row(index) {
    const task = this.pages.row(index);
    const row = h("div", { class: "row", role: "row", "aria-rowindex": index + 2, data: { index } });
    if (!task) {
      queueMicrotask(() => this.#wantVisible());
      return fill(row, h("div", { class: "cell", role: "cell" },
        h("span", { class: "stand-in", style: { width: "80%" } })));
    }
    const judged = h("span", {},
      count(task.successes), h("span", { class: "muted", text: `/${count(task.judged)}` }));
    const cell = (content, kind = "") => h("div", { class: `cell ${kind}`, role: "cell" }, content);
    return fill(row,
      cell(task.task === null ? "–" : String(task.task), "number task-number"),
      cell(this.#title(task), "task-title"),
      cell(h("span", { class: "clip muted", text: task.domain ?? "", title: task.domain }), "task-domain"),
      cell(task.difficulty ?? "–", "number task-difficulty"),
      cell(number(task.mean), "number task-mean"),
      cell(task.judged ? judged : "–", "number task-success"),
      cell(this.#cells(task), "task-cells"));
  }

  #wantVisible() {
    if (this.list) this.pages.want(...this.list.visible());
  }

  #title(task) {
    const title = task.title || "untitled";
    const href = task.task === null
      ? address(`${this.root}rollouts`, filterOf(this.params))
      : address(`${this.root}tasks/${task.task}`, filterOf(this.params));
    return link({
      href, class: "clip", dir: "auto", title: title.length > 40 ? title : null,
      data: { key: `task ${task.task_key}` },
    }, title);
  }

  #cells(task) {
    const filter = filterOf(this.params);
    const more = task.rollouts - task.cells.length;
    return h("div", { class: `profile${task.cells.length > MANY_CELLS ? " many" : ""}` },
      task.cells.map((one) => rewardCell(one, address(`${this.root}rollouts/${one.id}`, filter))),
      more > 0 ? h("span", { class: "muted", text: `+${count(more)}` }) : null);
  }
}

// One repeat. Rewards outside of 0 to 1 fill the cell, or leave it empty. Not a stop of the Tab key: the
// arrow keys go through the repeats.
function rewardCell(cell, href) {
  const words = repeatWords(cell);
  const share = cell.reward ?? (cell.success === null ? null : Number(cell.success));
  const filled = share === null ? null : Math.min(1, Math.max(0, share));
  const isJudged = cell.status === "completed" && filled !== null && !isBlocked(cell);
  const state = isJudged ? `reward-${Math.round(filled * 4)}` : isBlocked(cell) ? "blocked" : cell.status;
  return link({
    href, class: `profile-cell ${state}`, tabindex: "-1", "aria-label": words, data: { tip: words, key: cell.id },
  }, isJudged ? filling(filled) : null);
}

function filling(share) {
  return h("span", { style: { height: `${Math.max(8, 100 * share)}%` } });
}

function legend() {
  return h("ul", { class: "profile-legend", "aria-label": "Cells" }, LEGEND.map(([name, state, share]) =>
    h("li", {}, h("span", { class: `profile-cell ${state}`, "aria-hidden": "true" },
      share === undefined ? null : filling(share)), name)));
}
