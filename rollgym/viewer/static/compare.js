// Repeats of one task side by side: a column for each, a row for each turn or step, the first row in
// which they differ marked. (Two runs joined by their tasks are in joined.js.)

import { get, source as pathsOf } from "./api.js";
import { button } from "./buttons.js";
import { fill, h, refill } from "./dom.js";
import { counted, cut } from "./format.js";
import { keys } from "./keyboard.js";
import { failureNotice, skeleton } from "./notices.js";
import { badge, repeatCell } from "./outcome.js";
import { overlay } from "./overlay.js";
import { Portions } from "./pages.js";
import { picture } from "./pictures.js";
import { address, link, note } from "./router.js";
import { actionLine } from "./steps.js";
import { TurnNode } from "./turn.js";
import { VariableList } from "./virtual.js";

// The content of a turn or step, without ids and timings, which always differ.
function signature(item) {
  if (!item) return "";
  if ("role" in item) {
    const parts = (item.parts ?? []).map((part) => ("text" in part ? [part.text, part.size] : "picture"));
    const calls = (item.calls ?? []).map((call) => [call.name, call.arguments.text]);
    return JSON.stringify([item.role, parts, item.reasoning?.text, calls]);
  }
  return JSON.stringify([item.action, item.arguments?.text, item.url, item.response?.text]);
}

// Whether all items exist and are equal.
export function isSame(items) {
  const [first, ...rest] = items.map(signature);
  return items.every(Boolean) && rest.every((other) => other === first);
}

// The length of the common start of all texts. It never splits a surrogate pair.
export function commonStart(texts) {
  const [first = "", ...rest] = texts;
  let end = first.length;
  for (const text of rest) {
    let at = 0;
    while (at < end && at < text.length && text.charCodeAt(at) === first.charCodeAt(at)) at += 1;
    end = at;
  }
  const code = first.charCodeAt(end - 1);
  return code >= 0xd800 && code <= 0xdbff ? end - 1 : end;
}

export { joinedView } from "./joined.js";

const MOST_COLUMNS = 16;
const FIRST_COLUMNS = 4;
const MOST_CHOICES = 64;
const EXCERPT = 700;
const DEPARTURE = 80;
const LONGEST_TITLE = 120;
const PORTION = { turn: 25, step: 20 };
const ESTIMATE = { turn: 150, step: 210 };

export function repeatsView(container, match, params) {
  const view = new RepeatsPage(container, match, params);
  view.load();
  return view;
}

class RepeatsPage {
  constructor(container, { source, task }, params) {
    this.container = container;
    this.source = source;
    this.task = task;
    this.params = new URLSearchParams(params);
    this.paths = pathsOf(source);
    this.ended = new AbortController();
    this.columns = [];
    this.off = [];
  }

  async load() {
    const { signal } = this.ended;
    fill(this.container, h("div", { class: "compare" }, skeleton(4, 3, 14)));
    try {
      this.answer = await get(this.paths.repeats(this.task), null, { signal });
    } catch (error) {
      if (!signal.aborted) failureNotice(this.container, error, () => this.load());
      return;
    }
    this.#draw();
    const goToDifference = { words: "Go to the first difference", run: () => this.#goToDifference() };
    this.off.push(keys({ d: goToDifference }, "Repeats"));
  }

  update(params) {
    this.params = new URLSearchParams(params);
    if (this.answer) this.#drawColumns();
  }

  destroy() {
    this.ended.abort();
    this.list?.destroy();
    for (const off of this.off) off();
  }

  // The repeats to show: those in the address, else the first few.
  #chosen() {
    const named = new Set(this.params.getAll("show"));
    const chosen = this.answer.repeats.filter(({ id }) => named.has(id));
    return (chosen.length ? chosen : this.answer.repeats.slice(0, FIRST_COLUMNS)).slice(0, MOST_COLUMNS);
  }

  #root() {
    return `/s/${encodeURIComponent(this.source)}`;
  }

  #rolloutPath(id, place = {}) {
    return address(`${this.#root()}/rollouts/${encodeURIComponent(id)}`, place);
  }

  #draw() {
    const { title, difference } = this.answer;
    document.title = [cut(title, LONGEST_TITLE), "repeats", "rollgym"].filter(Boolean).join(" · ");
    this.chooser = h("div", { class: "chooser", role: "group", "aria-label": "Which repeats" });
    this.grid = h("div", { class: "compare-grid" });
    const differs = difference.index !== null && difference.index !== undefined;
    fill(this.container, h("div", { class: "compare" },
      h("header", { class: "rollout-head" },
        link({ href: `${this.#root()}/tasks`, class: "back" }, "‹ Tasks"),
        h("h1", { dir: "auto" }, title || `Task ${this.task}`),
        h("p", { class: "muted" }, this.#about()),
        h("div", { class: "rollout-tools" }, this.chooser,
          differs ? button(["Go to the first difference ", h("kbd", {}, "d")], () => this.#goToDifference()) : null)),
      this.grid));
    this.#drawColumns();
    if (differs && difference.index > 0) this.#goToDifference();
  }

  #about() {
    const { difference, repeats, left_out: leftOut = 0 } = this.answer;
    const differing = repeats.length > 1 ? difference.words || "no difference" : "nothing to compare";
    const left = leftOut ? ` · ${counted(leftOut, "more repeat")} not shown` : "";
    return `Task ${this.task} · ${counted(repeats.length, "repeat")} · ${differing}${left}`;
  }

  #drawColumns() {
    const { unit } = this.answer.difference;
    const chosen = this.#chosen();
    this.columns = chosen.map((repeat) => this.#column(repeat, unit));
    refill(this.chooser, this.answer.repeats.slice(0, MOST_CHOICES).map((repeat) => this.#choice(repeat, chosen)));
    this.list?.destroy();
    const rows = h("div", { class: "compare-rows" });
    const inner = h("div", { class: "compare-inner", style: { "--columns": String(chosen.length) } },
      h("div", { class: "compare-row compare-heads" },
        chosen.map((repeat) => this.#columnHead(repeat, unit))),
      rows);
    fill(this.grid, inner);
    this.list = new VariableList({
      scroller: this.container,
      container: rows,
      total: Math.max(0, ...this.columns.map(({ total }) => total)),
      estimate: ESTIMATE[unit],
      render: (index) => this.#row(index),
    });
  }

  #column(repeat, unit) {
    const total = unit === "step" ? repeat.steps : repeat.turns;
    const path = unit === "step" ? this.paths.steps(repeat.id) : this.paths.turns(repeat.id);
    const { signal } = this.ended;
    const load = async (from, size) => (await get(path, { from, count: size }, { signal }))[`${unit}s`];
    const items = new Portions({ total, size: PORTION[unit], load });
    return { repeat, total, place: { paths: this.paths, id: repeat.id }, items };
  }

  #columnHead(repeat, unit) {
    const size = unit === "step" ? counted(repeat.steps, "step") : counted(repeat.turns, "turn");
    return h("div", { class: "compare-head" },
      link(this.#rolloutPath(repeat.id), `Repeat ${repeat.repeat ?? "?"}`), badge(repeat),
      h("span", { class: "muted" }, size));
  }

  #choice(repeat, chosen) {
    const isShown = chosen.includes(repeat);
    const toggle = () => {
      const ids = isShown ? chosen.filter((each) => each !== repeat) : [...chosen, repeat];
      if (!ids.length) return;
      this.params.delete("show");
      for (const { id } of ids) this.params.append("show", id);
      note(address(`${this.#root()}/tasks/${encodeURIComponent(this.task)}`, this.params));
      this.#drawColumns();
    };
    const [props, sign] = repeatCell(repeat);
    const data = { ...props.data, key: repeat.id };
    return button(sign, toggle, { ...props, data, "aria-pressed": String(isShown) });
  }

  #goToDifference() {
    const { index } = this.answer.difference;
    if (index === null || index === undefined) return;
    const heads = this.grid.querySelector(".compare-heads");
    this.list.scrollToIndex(index, { offset: (heads?.offsetHeight ?? 0) + 8 });
  }

  #row(index) {
    const items = this.columns.map((column) => (index < column.total ? column.items.get(index) : null));
    return items.some((item) => item instanceof Promise)
      ? Promise.all(items).then((known) => this.#rowNode(index, known))
      : this.#rowNode(index, items);
  }

  #rowNode(index, items) {
    const { index: first, unit } = this.answer.difference;
    const isFirst = index === first;
    const same = isSame(items);
    const start = same ? 0 : commonStart(items.filter(Boolean).map(mainText));
    return h("div", { class: `compare-line${same ? "" : " is-different"}${isFirst ? " is-first" : ""}` },
      h("div", { class: "compare-index" }, `${unit} ${index + 1}`,
        isFirst ? h("strong", { class: "first-difference" }, "First difference") : null,
        items.length > 1 && !isFirst
          ? h("span", { class: "muted" }, same ? `same in all ${items.length}` : "different")
          : null),
      h("div", { class: "compare-row" }, this.#cells(items, same, unit, start)));
  }

  // Equal content is shown once; pictures may differ nevertheless.
  #cells(items, same, unit, start) {
    const alike = same && unit === "turn";
    const shown = alike ? items.slice(0, 1) : items;
    const cells = shown.map((item, column) => this.#cell(item, this.columns[column], unit, start));
    if (alike) cells[0].classList.add("is-alike");
    return cells;
  }

  #cell(item, column, unit, start) {
    if (!item) return h("div", { class: "compare-cell is-over" }, h("span", { class: "muted" }, "ended"));
    const path = this.#rolloutPath(column.repeat.id, { [unit]: item.index + 1 });
    if (unit === "turn") {
      const number = String(item.index + 1);
      const turn = new TurnNode(item, { place: column.place, excerpt: EXCERPT, number });
      turn.node.querySelector(".turn-head").append(link({ href: path, class: "compare-open" }, "Open"));
      return h("div", { class: "compare-cell" }, departure(mainText(item), start), turn.node);
    }
    return h("div", { class: "compare-cell" },
      item.screenshot ? link({ href: path, class: "compare-shot" },
        picture(item.screenshot, column.place, { alt: `Step ${item.index + 1}: ${item.title ?? ""}` }),
        overlay(item.marks ?? [], item.screenshot)) : h("p", { class: "muted" }, "no screenshot"),
      actionLine(item),
      h("p", { class: "shot-url" }, item.url ?? ""));
  }
}

// The part of a text that differs from the others; nothing if all of it differs or none.
function departure(text, start) {
  if (!start || start >= text.length || text.length < 40) return null;
  const own = cut(text.slice(start, start + 400).replace(/\s+/g, " "), DEPARTURE);
  return h("p", { class: "departure" },
    h("span", { class: "muted" }, `same for ${counted(start, "character")}, then `), h("mark", {}, own));
}

function mainText(item) {
  const part = item.parts?.find((each) => "text" in each);
  return part?.text ?? item.calls?.[0]?.arguments.text ?? item.action ?? "";
}
