// The columns of the list: all columns, the shown ones, and the content of their cells.

import { get, source as pathsOf } from "./api.js";
import { h, refill } from "./dom.js";
import { bytes, compact, count, cut, moment, number, seconds, words } from "./format.js";
import { outcome } from "./outcome.js";
import { prefer, preference, sourceOf } from "./state.js";

// `width` in rem; with `grow` a column gets a share of the remaining width. `menu` is its name in the
// column menu, if the title is not clear enough; `about` is its description there.
export const COLUMNS = [
  { id: "outcome", title: "Outcome", sort: "status", width: 9.5, cell: outcome },
  { id: "task", title: "Task", sort: "task", width: 4, number: true, cell: (e) => plain(e.task) },
  { id: "repeat", title: "Repeat", sort: "repeat", width: 4.5, number: true, cell: (e) => plain(e.repeat) },
  { id: "title", title: "Title", sort: "title", width: 13, grow: 6, cell: (e) => clipped(e.title || "untitled") },
  { id: "reward", title: "Reward", width: 6.5, ...measure("reward"), cell: (e) => reward(e.reward) },
  { id: "steps", title: "Steps", width: 4.5, ...measure("steps"), cell: (e) => count(e.steps) },
  {
    id: "tool_calls", title: "Tool calls", width: 6, ...measure("tool_calls"),
    cell: (e) => count(e.tool_calls),
  },
  { id: "tokens", title: "Tokens", width: 5, ...measure("tokens"), cell: tokens },
  {
    id: "seconds", title: "Duration", width: 6, ...measure("seconds"),
    cell: (e) => seconds(e.seconds),
  },
  { id: "started", title: "Started", width: 7.5, ...measure("started"), cell: (e) => moment(e.started) },
  {
    id: "detail", title: "Detail", about: "The final answer, or the failure", width: 12, grow: 4,
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
  { id: "bytes", title: "Size", width: 6, ...measure("bytes"), cell: (e) => bytes(e.bytes) },
  { id: "id", title: "Record", sort: "record", width: 6, cell: (e) => h("span", { class: "mono", text: e.id }) },
];
const BY_ID = new Map(COLUMNS.map((column) => [column.id, column]));
const DEFAULT = [
  "outcome", "task", "repeat", "title", "reward", "steps", "tool_calls", "tokens", "seconds", "detail",
];
// The overview says whether any rollout has values for these.
const MEASURED = ["reward", "steps", "tool_calls", "tokens", "seconds"];
const DEFAULTS_TIMEOUT = 300; // ms: a list waits at most this long for its default columns
const LONGEST_TIP = 2_000;
const FIELD = "field.";
const PADDING = 1.25; // rem at both ends of a row together

// The default columns of a source: those that have values in any of its rollouts, or all default
// columns if that is not known soon.
export async function usualColumns(source) {
  if (!sourceOf(source)?.state.ready) return DEFAULT;
  try {
    const signal = AbortSignal.timeout(DEFAULTS_TIMEOUT);
    const overview = await get(pathsOf(source).overview, null, { signal });
    const without = new Set(MEASURED.filter((name) => overview.rollouts && overview[name] === null));
    return DEFAULT.filter((id) => !without.has(id));
  } catch {
    return DEFAULT;
  }
}

// The columns to show: those of the address, else the stored choice, else the default ones.
export function columnsOf(params, usual) {
  const wanted = params.get("cols") ?? preference("columns", "");
  const columns = wanted.split(",").map(columnOf).filter(Boolean);
  return columns.length ? columns : (usual ?? DEFAULT).map(columnOf);
}

// Stores the choice of columns; returns the value of `cols`, null for the default columns.
export function chosen(ids, usual) {
  const value = ids.join(",");
  const isUsual = value === usual.join(",") || !ids.length;
  prefer("columns", isUsual ? null : value);
  return isUsual ? null : value;
}

// For `grid-template-columns`, and the least width of the table in rem.
export function layout(columns) {
  const template = columns.map(({ width, grow }) =>
    (grow ? `minmax(${width}rem, ${grow}fr)` : `${width}rem`));
  // Without a column that grows, the last one gets the remaining width.
  if (!columns.some(({ grow }) => grow)) {
    template[template.length - 1] = `minmax(${columns.at(-1).width}rem, 1fr)`;
  }
  const width = columns.reduce((sum, column) => sum + column.width, PADDING);
  return { template: template.join(" "), width };
}

// Numbers that are mostly wanted from the highest.
function measure(sort) {
  return { sort, number: true, falling: true };
}

function columnOf(id) {
  if (!id.startsWith(FIELD)) return BY_ID.get(id) ?? null;
  const name = id.slice(FIELD.length);
  return name ? fieldColumn(name) : null;
}

// The column of a field that rollouts brought along.
export function fieldColumn(name) {
  const id = FIELD + name;
  return { id, title: name, sort: id, width: 8, cell: (entry) => fieldCell(entry.fields?.[name]) };
}

function fieldCell(value) {
  if (value === null || value === undefined) return h("span", { class: "muted", text: "–" });
  if (typeof value === "number") return h("span", { class: "number", text: number(value) });
  return clipped(String(value));
}

function reward(value) {
  if (value === null) return h("span", { class: "muted", text: "–" });
  // A reward beyond 0 to 1 has an unknown scale.
  const gauge = value < 0 || value > 1 ? null
    : h("span", { class: "gauge", "aria-hidden": "true" }, h("span", { style: { width: `${100 * value}%` } }));
  return [gauge, h("span", { text: number(value), title: String(value) })];
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
  const title = text.length > 24 ? cut(text, LONGEST_TIP) : null;
  return h("span", { class: `clip ${tone}`, dir: "auto", text: cut(text, 300), title });
}

// The menu in which the columns of the list are chosen.

// `facets` is the path of the existing fields, `shown()` returns the present columns, and
// `choose(ids)` is called with the chosen ones; with an empty list for the default columns.
export function columnMenu({ facets, shown, choose }) {
  const box = h("div", { class: "columns-menu" });
  const draw = (fields) => refill(box, choices(shown(), fields, (ids) => {
    choose(ids);
    if (!ids.length) draw(fields);
  }));
  draw([]);
  get(facets).then((known) => draw(known.fields ?? []), () => {});
  return box;
}

// A checkbox for each column, and for each field of the rollouts.
function choices(shown, fields, change) {
  const ids = shown.map((column) => column.id);
  const all = [...COLUMNS, ...fields.map(({ name }) => fieldColumn(name))];
  const toggle = (column, on) => {
    const at = ids.indexOf(column.id);
    if (on && at < 0) ids.splice(placeOf(column, ids, all), 0, column.id);
    else if (!on && at >= 0) ids.splice(at, 1);
    change([...ids]);
  };
  const option = (column) => h("label", { class: "option" },
    h("input", {
      type: "checkbox", checked: ids.includes(column.id), data: { key: column.id },
      on: { change: (event) => toggle(column, event.target.checked) },
    }),
    h("span", { text: column.menu ?? column.title, title: column.about ?? column.menu ?? column.title }));
  return h("div", {},
    h("fieldset", { class: "options two" }, h("legend", { text: "Columns" }), COLUMNS.map(option)),
    fields.length
      ? h("fieldset", { class: "options two" },
        h("legend", { text: "Fields of rollouts" }), all.slice(COLUMNS.length).map(option))
      : null,
    h("button", { class: "quiet", data: { key: "usual" }, on: { click: () => change([]) } }, "Default columns"));
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
