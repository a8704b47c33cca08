// What long tables share: a head that sorts, grey rows for rows that are loading, and rollouts as rows
// of cells or, on narrow screens, as cards.

import { h } from "./dom.js";
import { compact, counted, number, seconds } from "./format.js";
import { outcome } from "./outcome.js";
import { link } from "./router.js";

export const NARROW = "(max-width: 44rem)";

// `columns` of {title, sort, number, falling}: `falling` ones are first sorted from the highest.
// `onSort(sort, order)` is called with the new order.
export function tableHead({ columns, sort, order, onSort }) {
  return h("div", { class: "row head", role: "row", "aria-rowindex": "1" }, columns.map((column) => {
    const active = column.sort !== undefined && column.sort === sort;
    const rising = order !== "desc";
    const next = active ? (rising ? "desc" : "asc") : column.falling ? "desc" : "asc";
    return h("div", {
      class: column.number ? "cell number" : "cell", role: "columnheader",
      "aria-sort": active ? (rising ? "ascending" : "descending") : null,
    }, column.sort
      ? h("button", {
        class: "sort", data: { key: `sort ${column.id ?? column.sort}` },
        on: { click: () => onSort(column.sort, next) },
      },
        column.title,
        h("span", { class: "arrow", "aria-hidden": "true", text: active ? (rising ? "▲" : "▼") : "" }))
      : column.title);
  }));
}

// The sort controls of narrow screens: a choice of columns, and a button that reverses the order.
export function sortChoice({ columns, sort, order, onSort }) {
  const sortable = columns.filter((column) => column.sort);
  const rising = order !== "desc";
  const words = rising ? "Smallest first" : "Largest first";
  const choose = (event) => {
    const column = sortable.find((one) => one.sort === event.target.value);
    onSort(column.sort, column.falling ? "desc" : "asc");
  };
  return [
    h("select", { "aria-label": "Sort by", value: sort, data: { key: "sort" }, on: { change: choose } },
      sortable.map((column) => h("option", { value: column.sort, text: column.title }))),
    h("button", {
      class: "icon", "aria-label": words, data: { key: "order" },
      on: { click: () => onSort(sort, rising ? "desc" : "asc") },
    }, rising ? "↑" : "↓"),
  ];
}

// The grey cells of a row that is loading, with different widths.
export function standIns(index, cells) {
  return Array.from({ length: cells }, (_, at) => h("div", { class: "cell", role: "gridcell" },
    h("span", { class: "stand-in", style: { width: `${35 + ((index * 7 + at * 13) % 45)}%` } })));
}

// The title is the link that covers the row; without a title the first cell is.
export function rolloutCells(entry, columns, href) {
  const linked = Math.max(0, columns.findIndex(({ id }) => id === "title"));
  return columns.map((column, at) => {
    const content = column.cell(entry);
    return h("div", { class: column.number ? "cell number" : "cell", role: "gridcell" },
      at === linked ? rowLink(href, content) : content);
  });
}

// `repeated`: whether tasks have several repeats, so that each card shows its repeat.
export function rolloutCard(entry, href, { repeated }) {
  const tokens = (entry.input_tokens ?? 0) + (entry.output_tokens ?? 0);
  const facts = [
    entry.task === null ? null : `task ${entry.task}`,
    repeated && entry.repeat !== null ? `repeat ${entry.repeat}` : null,
    entry.reward === null ? null : `reward ${number(entry.reward)}`,
    entry.steps === null ? null : counted(entry.steps, "step"),
    tokens ? `${compact(tokens)} tokens` : null,
    entry.seconds === null ? null : seconds(entry.seconds),
  ];
  return h("div", { class: "card", role: "gridcell" },
    rowLink(href, h("span", { class: "clip", dir: "auto", text: entry.title || "untitled" })),
    h("span", { class: "card-facts" },
      outcome(entry),
      h("span", { class: "clip muted", text: facts.filter(Boolean).join(" · ") })));
}

// Not a stop of the Tab key: the table is, and its keys go through the rows.
function rowLink(href, content) {
  return link({ class: "row-link", href, tabindex: "-1" }, content);
}

// The total of a list, such as "29 rollouts, 1 unreadable line".
export function totalWords({ total, unreadable }) {
  const rollouts = total - unreadable;
  const words = [];
  if (rollouts || !unreadable) words.push(counted(rollouts, "rollout"));
  if (unreadable) words.push(counted(unreadable, "unreadable line"));
  return words.join(", ");
}

// "Export 29 rollouts as JSONL"; `answer` is null before the total is known.
export function exportWords(answer) {
  return `Export ${answer ? counted(answer.total - answer.unreadable, "rollout") : "the rollouts"} as JSONL`;
}
