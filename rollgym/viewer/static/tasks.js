// Tasks with their repeats as a row of cells: the reward profile at a glance. A cell is filled as
// high as its reward; one that failed is hatched, so that colour is not all there is.

import { source as pathsOf } from "./api.js";
import { outcomeOf } from "./columns.js";
import { fill, h } from "./dom.js";
import { FilterBar, changed, filterOf, isFiltered } from "./filters.js";
import { count, counted, number } from "./format.js";
import { keys } from "./keyboard.js";
import { empty, failure } from "./notices.js";
import { Pages } from "./pages.js";
import { address, link, navigate, onLeave, visit } from "./router.js";
import { onVersion, sourceOf } from "./state.js";
import { NARROW, tableHead } from "./table.js";
import { FixedList } from "./virtual.js";

const ROW = 40;
const CARD = 68;
const MANY_CELLS = 24;
const COLUMNS = [
  { title: "Task", sort: "task", number: true },
  { title: "Title", sort: "title" },
  { title: "Domain" },
  { title: "Level", number: true },
  { title: "Mean", sort: "mean", number: true },
  { title: "Success", sort: "successes", number: true },
  { title: "Repeats", sort: "rollouts" },
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
    this.filters = new FilterBar({
      source, params, extra: [this.total],
      onChange: (wanted) => navigate(address(`${this.root}tasks`, wanted)),
    });
    this.table = h("div", { class: "table tasks", role: "table", "aria-label": "Tasks", tabindex: "0" });
    container.className = "fills";
    container.append(
      h("h1", { class: "visually-hidden", text: "Tasks" }),
      this.filters.node,
      h("div", { class: "table-frame" }, this.table));
    this.narrow = matchMedia(NARROW);
    this.onNarrow = () => this.#begin();
    this.narrow.addEventListener("change", this.onNarrow);
    this.table.addEventListener("scroll", () => this.#wantVisible(), { passive: true });
    onLeave(() => ({ scroll: this.table.scrollTop }));
    this.offKeys = keys({ "/": { words: "Search", run: () => this.filters.focus() } }, "Tasks");
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
      failed: (error) => fill(this.notice, failure(error, () => {
        fill(this.notice);
        this.pages.refresh();
      })),
    });
    const narrow = this.narrow.matches;
    this.table.classList.toggle("cards", narrow);
    this.notice = h("div", { class: "table-notice" });
    fill(this.table, narrow ? null : this.#head(), this.notice);
    this.rowHeight = narrow ? CARD : ROW;
    this.list = new FixedList({
      container: this.table, rowHeight: this.rowHeight, top: narrow ? 0 : ROW,
      total: Math.max(1, Math.ceil(this.table.clientHeight / this.rowHeight) - 1),
      render: (index) => this.#row(index),
    });
    const first = Math.floor(this.restore / this.rowHeight);
    this.pages.want(first, first + 1);
  }

  #head() {
    return tableHead({
      columns: COLUMNS,
      sort: this.params.get("sort") ?? "task",
      order: this.params.get("order"),
      onSort: (sort, order) => navigate(address(`${this.root}tasks`,
        changed(this.params, { sort, order: order === "asc" ? null : order }))),
    });
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

  #nothing() {
    if (isFiltered(this.params)) {
      return empty("No task matches",
        h("button", { on: { click: () => navigate(`${this.root}tasks`) } }, "Clear the filters"));
    }
    return sourceOf(this.source)?.state.ready ? empty("No tasks yet") : empty("Reading the file…");
  }

  #row(index) {
    const task = this.pages.row(index);
    const row = h("div", { class: "row", role: "row", "aria-rowindex": index + 2 });
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
      cell(task.difficulty ?? "–", "number task-level"),
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
    return link({ href, class: "clip", title: title.length > 40 ? title : null }, title);
  }

  #cells(task) {
    const filter = filterOf(this.params);
    const more = task.rollouts - task.cells.length;
    return h("div", { class: `profile${task.cells.length > MANY_CELLS ? " many" : ""}` },
      task.cells.map((one) => rewardCell(one, address(`${this.root}rollouts/${one.id}`, filter))),
      more > 0 ? h("span", { class: "muted", text: `+${count(more)}` }) : null);
  }
}

// One repeat. Rewards outside of 0 to 1 fill the cell, or leave it empty.
function rewardCell(cell, href) {
  const { word } = outcomeOf({ ...cell, kind: "" });
  const reward = cell.reward === null ? "" : `, reward ${number(cell.reward)}`;
  const words = `${cell.repeat === null ? "" : `repeat ${cell.repeat}: `}${word}${reward}`;
  const share = cell.reward === null ? (cell.success ? 1 : 0) : Math.min(1, Math.max(0, cell.reward));
  const state = cell.status === "completed" ? `reward-${Math.round(share * 4)}` : cell.status;
  return link({ href, class: `profile-cell ${state}`, "aria-label": words, data: { tip: words } },
    cell.status === "completed" ? h("span", { style: { height: `${Math.max(8, 100 * share)}%` } }) : null);
}
