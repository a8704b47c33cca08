// The columns of the list: which there are, which are shown, and how a rollout fills each.

import { h } from "./dom.js";
import { bytes, compact, count, cut, moment, number, seconds, words } from "./format.js";
import { preference, prefer } from "./state.js";

// `width` in rem; with `grow` a column takes its share of what is left. `menu` is its name where
// columns are chosen, if the title alone does not say enough.
const COLUMNS = [
  { id: "outcome", title: "Outcome", sort: "status", width: 9.5, cell: outcome },
  { id: "task", title: "Task", sort: "task", width: 4, number: true, cell: (e) => plain(e.task) },
  { id: "repeat", title: "Repeat", sort: "repeat", width: 4.5, number: true, cell: (e) => plain(e.repeat) },
  { id: "title", title: "Title", sort: "title", width: 13, grow: 6, cell: (e) => clipped(e.title || "untitled") },
  { id: "reward", title: "Reward", width: 6.5, ...measure("reward"), cell: (e) => reward(e.reward) },
  { id: "steps", title: "Steps", width: 4.5, ...measure("steps"), cell: (e) => count(e.steps) },
  {
    id: "tool_calls", title: "Calls", menu: "Tool calls", width: 4.5, ...measure("tool_calls"),
    cell: (e) => count(e.tool_calls),
  },
  { id: "tokens", title: "Tokens", width: 5, ...measure("tokens"), cell: tokens },
  {
    id: "seconds", title: "Time", menu: "Duration", width: 5.75, ...measure("seconds"),
    cell: (e) => seconds(e.seconds),
  },
  { id: "started", title: "Started", width: 7.5, ...measure("started"), cell: (e) => moment(e.started) },
  {
    id: "detail", title: "Detail", menu: "Final answer, or what failed", width: 12, grow: 4,
    cell: (e) => clipped(e.detail, "muted"),
  },
  { id: "status", title: "Status", sort: "status", width: 6.5, cell: (e) => e.status },
  { id: "success", title: "Success", sort: "success", width: 5.5, cell: (e) => yesOrNo(e.success) },
  {
    id: "kind", title: "Failure", menu: "Failure kind", sort: "kind", width: 9,
    cell: (e) => clipped(words(e.kind ?? "")),
  },
  { id: "cause", title: "Cause", width: 12, grow: 4, cell: (e) => clipped(e.cause ?? "", "muted") },
  { id: "attempt", title: "Attempt", sort: "attempt", width: 5.5, number: true, cell: (e) => plain(e.attempt) },
  { id: "ending", title: "Ending", sort: "ending", width: 8, cell: (e) => clipped(words(e.ending ?? "")) },
  { id: "agent", title: "Agent", sort: "agent", width: 9, cell: (e) => clipped(e.agent ?? "") },
  { id: "domain", title: "Domain", sort: "domain", width: 8, cell: (e) => clipped(e.domain ?? "") },
  {
    id: "difficulty", title: "Difficulty", sort: "difficulty", width: 6, number: true,
    cell: (e) => plain(e.difficulty),
  },
  { id: "model", title: "Model", sort: "model", width: 10, cell: (e) => clipped(e.model ?? "") },
  {
    id: "input_tokens", title: "Input", menu: "Input tokens", width: 5, ...measure("input_tokens"),
    cell: (e) => compact(e.input_tokens),
  },
  {
    id: "output_tokens", title: "Output", menu: "Output tokens", width: 5.5, ...measure("output_tokens"),
    cell: (e) => compact(e.output_tokens),
  },
  { id: "bytes", title: "Size", width: 6, number: true, cell: (e) => bytes(e.bytes) },
  { id: "id", title: "Record", sort: "record", width: 6, cell: (e) => h("span", { class: "mono", text: e.id }) },
];
const BY_ID = new Map(COLUMNS.map((column) => [column.id, column]));
const DEFAULT = [
  "outcome", "task", "repeat", "title", "reward", "steps", "tool_calls", "tokens", "seconds", "detail",
];
const FIELD = "field.";
const PADDING = 1.25; // rem at both ends of a row together

// The shown columns: those of the address, else those chosen at an earlier visit.
export function columnsOf(params) {
  const wanted = params.get("cols") ?? preference("columns");
  const columns = (wanted ? wanted.split(",") : DEFAULT).map(columnOf).filter(Boolean);
  return columns.length ? columns : DEFAULT.map(columnOf);
}

// The value of `cols` for these, null for the built-in choice; it is also the choice of later visits.
export function chosen(ids) {
  const value = ids.join(",");
  const usual = value === DEFAULT.join(",") || !ids.length;
  prefer("columns", usual ? null : value);
  return usual ? null : value;
}

// A checkbox for each column, and for each field that rollouts brought along.
export function columnChoices(shown, fields, change) {
  const ids = shown.map((column) => column.id);
  const all = [...COLUMNS, ...fields.map(({ name }) => columnOf(FIELD + name))];
  const toggle = (column, on) => {
    const at = ids.indexOf(column.id);
    if (on && at < 0) ids.splice(placeOf(column, ids, all), 0, column.id);
    else if (!on && at >= 0) ids.splice(at, 1);
    change([...ids]);
  };
  const option = (column) => h("label", { class: "option" },
    h("input", {
      type: "checkbox", checked: ids.includes(column.id),
      on: { change: (event) => toggle(column, event.target.checked) },
    }),
    h("span", { text: column.menu ?? column.title, title: column.menu ?? column.title }));
  return h("div", {},
    h("fieldset", { class: "options two" }, h("legend", { text: "Columns" }), COLUMNS.map(option)),
    fields.length
      ? h("fieldset", { class: "options two" },
        h("legend", { text: "Fields of the rollouts" }), all.slice(COLUMNS.length).map(option))
      : null,
    h("button", { class: "quiet", on: { click: () => change([]) } }, "Usual columns"));
}

// For `grid-template-columns`, and the least width of the table in rem.
export function layout(columns) {
  const template = columns.map(({ width, grow }) =>
    (grow ? `minmax(${width}rem, ${grow}fr)` : `${width}rem`));
  // Without a column that grows the last takes what is left.
  if (!columns.some(({ grow }) => grow)) {
    template[template.length - 1] = `minmax(${columns.at(-1).width}rem, 1fr)`;
  }
  const width = columns.reduce((sum, column) => sum + column.width, PADDING);
  return { template: template.join(" "), width };
}

// What came of a rollout: a sign, a word and a colour.
export function outcomeOf({ status, success, kind }) {
  if (status === "completed" && success === true) return { sign: "✓", word: "success", tone: "good" };
  if (status === "completed" && success === false) return { sign: "✕", word: "no success", tone: "bad" };
  if (status === "completed") return { sign: "●", word: "completed", tone: "info" };
  if (status === "failed") return { sign: "!", word: kind ? words(kind) : "failed", tone: "failed" };
  if (status === "retried") return { sign: "↻", word: kind ? words(kind) : "retried", tone: "warn" };
  if (status === "omitted") return { sign: "–", word: "omitted", tone: "muted" };
  if (status === "unreadable") return { sign: "?", word: "unreadable", tone: "bad" };
  return { sign: "·", word: status, tone: "muted" };
}

export function outcome(entry) {
  const { sign, word, tone } = outcomeOf(entry);
  return h("span", { class: `outcome ${tone}` },
    h("span", { class: "sign", "aria-hidden": "true", text: sign }),
    h("span", { class: "clip", text: word, title: word }));
}

// Numbers that are mostly wanted from the highest.
function measure(sort) {
  return { sort, number: true, falling: true };
}

function columnOf(id) {
  if (!id.startsWith(FIELD)) return BY_ID.get(id) ?? null;
  const name = id.slice(FIELD.length);
  if (!name) return null;
  return { id, title: name, sort: id, width: 8, cell: (entry) => fieldCell(entry.fields?.[name]) };
}

// Beside the shown column that comes before it in the menu.
function placeOf(column, ids, all) {
  const order = all.map(({ id }) => id);
  for (let at = order.indexOf(column.id) - 1; at >= 0; at--) {
    const place = ids.indexOf(order[at]);
    if (place >= 0) return place + 1;
  }
  return 0;
}

function fieldCell(value) {
  if (value === null || value === undefined) return h("span", { class: "muted", text: "–" });
  if (typeof value === "number") return h("span", { class: "number", text: number(value) });
  return clipped(String(value));
}

function reward(value) {
  if (value === null) return h("span", { class: "muted", text: "–" });
  const share = Math.min(1, Math.max(0, value));
  return [
    h("span", { class: "gauge", "aria-hidden": "true" },
      h("span", { class: value > 0 ? "" : "none", style: { width: `${100 * share}%` } })),
    h("span", { text: number(value) }),
  ];
}

function tokens(entry) {
  if (entry.input_tokens === null && entry.output_tokens === null) return "–";
  return compact((entry.input_tokens ?? 0) + (entry.output_tokens ?? 0));
}

function yesOrNo(value) {
  return value === null ? "–" : value ? "yes" : "no";
}

function plain(value) {
  return value === null || value === undefined ? "–" : String(value);
}

function clipped(text, tone = "") {
  return h("span", { class: `clip ${tone}`, text: cut(text, 300), title: text.length > 24 ? text : null });
}
