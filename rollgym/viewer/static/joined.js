// Two runs compared by their tasks: which improved, which regressed.

import { fill, h, heldKey, holdKey, rem } from "./dom.js";
import { button } from "./buttons.js";
import { FixedList } from "./fixed_list.js";
import { Pages } from "./pages.js";
import { count, counted, cut, number } from "./format.js";
import { failure } from "./notices.js";
import { address, link, navigate } from "./router.js";
import { sources } from "./state.js";

const ROW = 2.75; // rem
const CHANGES = [
  ["improved", "Improved", "▲"], ["regressed", "Regressed", "▼"], ["same", "Same", "="],
  ["left_only", "Only left", "◧"], ["right_only", "Only right", "◨"], ["unknown", "Without reward", "?"],
];
// Regressions come first by default.
const SORTS = [
  ["delta", "Change"], ["task", "Task"], ["title", "Title"], ["left", "Left mean"], ["right", "Right mean"],
];

export function joinedView(container, match, params) {
  return new JoinedPage(container, params);
}

class JoinedPage {
  constructor(container, params) {
    this.container = container;
    this.begin(params);
  }

  update(params) {
    this.#end();
    this.begin(params);
  }

  destroy() {
    this.#end();
  }

  begin(params) {
    this.params = new URLSearchParams(params);
    const all = sources();
    const [left, right] = [this.params.get("left") ?? all[0]?.id, this.params.get("right") ?? all[1]?.id];
    this.head = h("header", { class: "rollout-head" });
    this.counts = h("div", { class: "changes", role: "group", "aria-label": "Which tasks" });
    this.table = h("div", {
      class: "joined-rows", tabindex: "0", role: "table", "aria-label": "Tasks", data: { scrolls: "" },
    });
    this.problem = h("div", {});
    this.held = heldKey(this.container);
    fill(this.container, h("div", { class: "joined" }, this.head, this.counts, this.problem, this.table));
    this.#drawHead(all, left, right);
    holdKey(this.container, this.held);
    if (!left || !right) {
      const how = "Open two runs to compare them: rollgym view FIRST SECOND";
      fill(this.problem, h("p", { class: "muted" }, how));
      return;
    }
    this.params.set("left", left);
    this.params.set("right", right);
    const asked = new URLSearchParams(this.params);
    if (!asked.has("sort")) asked.set("sort", SORTS[0][0]);
    this.pages = new Pages({
      path: "/api/joined",
      params: asked,
      rowsOf: ({ tasks }) => tasks,
      changed: (news) => this.#changed(news),
      failed: (error) => fill(this.problem, failure(error, () => this.pages.refresh())),
    });
    this.pages.want(0, 1);
  }

  #end() {
    this.pages?.destroy();
    this.list?.destroy();
    this.list = null;
  }

  #go(change) {
    const params = new URLSearchParams(this.params);
    for (const [name, value] of Object.entries(change)) {
      if (value === null) params.delete(name);
      else params.set(name, value);
    }
    navigate(address("/compare", params));
  }

  #drawHead(all, left, right) {
    document.title = "Compare · rollgym";
    const choose = (side, value) => h("label", { class: "side-choice" }, side === "left" ? "Left" : "Right",
      h("select", {
        value, data: { key: side }, on: { change: (event) => this.#go({ [side]: event.target.value }) },
      },
        all.map((source) => h("option", { value: source.id }, source.title))));
    const swap = () => this.#go({ left: right, right: left });
    fill(this.head, h("h1", {}, "Compare runs"),
      h("div", { class: "sides" },
        choose("left", left),
        button("⇄", swap, { "aria-label": "Swap left and right", data: { key: "swap" } }),
        choose("right", right),
        this.#sortChoice(), this.#orderButton()));
  }

  #sortChoice() {
    const choose = (event) => this.#go({ sort: event.target.value });
    const value = this.params.get("sort") ?? SORTS[0][0];
    const options = SORTS.map(([name, words]) => h("option", { value: name }, words));
    return h("label", { class: "side-choice" }, "Sort by",
      h("select", { value, data: { key: "sort" }, on: { change: choose } }, options));
  }

  #orderButton() {
    const down = this.params.get("order") === "desc";
    const words = down ? "Largest first" : "Smallest first";
    const turn = () => this.#go({ order: down ? null : "desc" });
    return button(down ? "↓" : "↑", turn, { "aria-label": words, data: { tip: words, key: "order" } });
  }

  #changed({ total, answer }) {
    this.answer = answer;
    fill(this.problem);
    this.#drawCounts(answer);
    // Keeps the focus on the selected group, which was drawn again.
    if (document.activeElement === document.body) holdKey(this.container, this.held);
    if (!this.list) {
      fill(this.table, this.#columnHeads(answer));
      const render = (index) => this.#row(index);
      const rowHeight = rem(ROW);
      this.list = new FixedList({ container: this.table, rowHeight, total, render, top: rowHeight });
      this.table.addEventListener("scroll", () => this.pages.want(...this.list.visible()), { passive: true });
      this.pages.want(...this.list.visible());
    } else {
      this.list.setTotal(total);
      this.list.refresh();
    }
    if (!total) fill(this.problem, h("p", { class: "muted" }, "There are no tasks in this group."));
  }

  #drawCounts({ counts }) {
    const chosen = this.params.get("change");
    const group = (value, words, mark, size) => button(
      [mark ? h("span", { "aria-hidden": "true" }, mark) : null, h("b", {}, count(size)), words],
      () => this.#go({ change: chosen === value ? null : value }),
      {
        class: `change is-${value ?? "all"}`, "aria-pressed": String(chosen === value),
        data: { key: `group ${value}` },
      },
    );
    const all = CHANGES.reduce((sum, [value]) => sum + (counts[value] ?? 0), 0);
    const shown = CHANGES.filter(([value]) => value !== "unknown" || counts[value]);
    fill(this.counts, group(null, all === 1 ? "task" : "tasks", "", all),
      shown.map(([value, words, mark]) => group(value, words, mark, counts[value] ?? 0)));
  }

  #columnHeads({ left, right }) {
    const side = ({ title, mean, tasks }) => h("span", { class: "joined-side", role: "columnheader", title },
      h("span", { class: "joined-title" }, title),
      h("span", { class: "muted" }, `mean ${number(mean)} · ${counted(tasks, "task")}`));
    const head = (words) => h("span", { role: "columnheader" }, words);
    return h("div", { class: "joined-row joined-heads", role: "row" },
      head("Task"), side(left), side(right), head("Change"));
  }

  #row(index) {
    const task = this.pages.row(index);
    if (!task) {
      return h("div", { class: "joined-row", role: "row" }, h("span", { class: "muted", role: "cell" }, "…"));
    }
    return h("div", { class: `joined-row is-${task.change}`, role: "row", "aria-rowindex": index + 2 },
      h("span", { class: "joined-task", role: "rowheader", dir: "auto", title: task.title },
        cut(task.title || task.task_key, 160)),
      this.#side(task.left, this.answer.left.id),
      this.#side(task.right, this.answer.right.id),
      deltaBar(task));
  }

  #side(side, source) {
    if (!side) return h("span", { class: "joined-side muted", role: "cell" }, "–");
    const { successes, judged, rollouts, task, first } = side;
    const about = judged ? `${count(successes)}/${count(judged)}` : counted(rollouts, "rollout");
    const path = task === null ? `rollouts/${encodeURIComponent(first)}` : `tasks/${task}`;
    return h("span", { class: "joined-side", role: "cell" }, link(`/s/${encodeURIComponent(source)}/${path}`,
      h("b", {}, number(side.mean)), h("span", { class: "muted" }, ` ${about}`)));
  }
}

// Bars to the right of the middle are improvements, to the left regressions.
function deltaBar({ delta, change }) {
  const known = delta !== null && delta !== undefined;
  const share = known ? Math.min(Math.abs(delta), 1) * 50 : 0;
  const left = delta < 0 ? 50 - share : 50;
  const bar = h("span", { class: "delta-bar", style: { width: `${share}%`, left: `${left}%` } });
  const [, words, mark] = CHANGES.find(([value]) => value === change) ?? ["", change, ""];
  return h("span", { class: "delta", role: "cell" }, h("span", { class: "delta-track", "aria-hidden": "true" }, bar),
    h("span", { class: "delta-words" }, h("span", { "aria-hidden": "true" }, `${mark} `),
      known && change !== "same" ? `${delta > 0 ? "+" : "−"}${number(Math.abs(delta))}` : words));
}
