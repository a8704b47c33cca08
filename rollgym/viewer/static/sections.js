// What is known about a rollout beside its conversation: verdict, failure, attempts, task, sampling, tools.

import { copyButton } from "./buttons.js";
import { h } from "./dom.js";
import { count, cut, moment, seconds, words } from "./format.js";
import { inline } from "./inline.js";
import { link } from "./router.js";
import { fold, oneLine, TextBlock } from "./text.js";

const SHORT = 60;
const EXCERPT = 1_500;
const COLUMNS = ["Attempt", "Outcome", "Detail", "Duration", "Started"];

// The sections of a view except the verdict, and its tokens.
export function sections(view, place) {
  const usage = Object.entries(view.usage ?? {});
  const tokens = () => h("dl", { class: "figures" },
    usage.map(([name, value]) => h("div", {}, h("dt", {}, words(name)), h("dd", {}, count(value)))));
  return [
    usage.length ? fold({ class: "section" }, h("h2", {}, "Tokens"), tokens, { open: true }) : null,
    (view.sections ?? []).filter((section) => !section.verdict).map((section) => fold({ class: "section" },
      [h("h2", {}, section.title), h("span", { class: "fold-about" }, String(section.fields.length))],
      () => h("dl", { class: "fields" }, section.fields.map((field) => fieldNode(field, place))),
      { open: !section.folded })),
  ];
}

// Whether a value is shown on the line of its name.
export function isShort(value) {
  return value.size <= SHORT && !value.text.includes("\n");
}

// A field of a list. `cutting` has the options of TextBlock that say where a long text is cut.
export function fieldNode({ name, value, is_json: isJson, file }, place, cutting = { excerpt: EXCERPT }) {
  if (file) {
    const save = h("a", { href: place.paths.har(file), download: "", title: value.text }, "Download");
    return h("div", { class: "is-short" }, h("dt", {}, words(name)), h("dd", {}, save));
  }
  if (isShort(value)) {
    return h("div", { class: "is-short" }, h("dt", {}, words(name)), h("dd", {}, shortValue(value, isJson)));
  }
  const block = new TextBlock(value, { place, format: isJson ? "json" : "markdown", ...cutting });
  const copy = copyButton(() => block.fetchWhole());
  return h("div", {}, h("dt", {}, words(name), copy), h("dd", {}, block.node));
}

function shortValue({ text }, isJson) {
  if (!text) return h("span", { class: "muted" }, "empty");
  return isJson ? h("code", {}, text) : inline(text);
}

// Why the rollout failed; null if it did not. `isLast`: no attempt followed this one.
export function failureBox(failure, place, { isLast }) {
  if (!failure) return null;
  const meaning = [sentence(failure.meaning ?? ""), retryWords(failure, isLast)].filter(Boolean).join(" ");
  const cause = ([kind, text]) =>
    h("li", {}, h("span", { class: "muted" }, "caused by "), h("code", {}, kind), " ", text);
  const causes = failure.causes?.length
    ? h("ol", { class: "failure-causes", "aria-label": "Caused by" }, failure.causes.map(cause))
    : null;
  return h("section", { class: "failure-box", "aria-label": "Failure" },
    h("h2", {}, h("span", { "aria-hidden": "true" }, "! "), "Failed: ", h("code", {}, failure.kind)),
    meaning ? h("p", { class: "failure-meaning" }, meaning) : null,
    new TextBlock(failure.detail, { place, format: "plain", excerpt: EXCERPT }).node,
    causes,
    failure.place ? h("p", { class: "failure-place" }, "Raised at ", h("code", {}, failure.place)) : null,
    failure.traceback ? fold({ class: "fold" }, h("span", { class: "fold-name" }, "Traceback"), () =>
      new TextBlock(failure.traceback, { place, format: "plain" }).node) : null);
}

// What deserves a look about a completed rollout; null if there is nothing.
export function signBox(signs) {
  if (!signs?.length) return null;
  return h("section", { class: "sign-box", "aria-label": "Deserves a look" },
    h("h2", {}, "Deserves a look"),
    h("ul", {}, signs.map(({ sign, meaning, number }) => h("li", {},
      h("b", {}, words(sign)), meaning ? `: ${meaning}` : "", number > 1 ? ` (${count(number)} times)` : ""))));
}

function retryWords({ retryable }, isLast) {
  if (!isLast) return "It was retried.";
  if (retryable === undefined || retryable === null) return "";
  return retryable ? "It can be retried." : "It is not retried.";
}

// Adds a capital at the start and a full stop at the end.
function sentence(words) {
  const text = words.trim();
  return text && text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

// Whether no attempt followed the one with this id.
export function isLastAttempt(attempts, id) {
  const present = attempts.find((one) => one.id === id);
  return !attempts.some(({ attempt }) => attempt > present?.attempt);
}

// All attempts at one rollout, if there are several. `path(id)` returns the address of an attempt.
export function attemptsTable(attempts, present, path) {
  if (attempts.length < 2) return null;
  const name = ({ id, attempt }) => {
    const number = `${attempt ?? "?"}`;
    return id === present ? `${number} (this one)` : link(path(id), number);
  };
  const row = (attempt) => h("tr", { class: attempt.id === present ? "is-present" : null },
    h("td", {}, name(attempt)),
    h("td", { class: "attempt-outcome" }, attempt.status, attempt.kind ? [" ", h("code", {}, attempt.kind)] : null),
    h("td", { class: "attempt-detail" }, attempt.detail),
    h("td", { class: "number" }, seconds(attempt.seconds)),
    h("td", {}, moment(attempt.started)));
  return h("section", { class: "attempts" }, h("h2", {}, "Attempts"),
    h("div", { class: "scroll-x", tabindex: "0" }, h("table", {},
      h("thead", {}, h("tr", {}, COLUMNS.map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, attempts.map(row)))));
}

const MOST_FIELDS = 8;
const VERDICT_EXCERPT = 320;
const SPARED = 120;
const PREVIEW = 80;

// The fields of the verifier and the judge, in few lines; null if there are none.
export function verdict({ sections = [] }, place) {
  const verdicts = sections.filter((section) => section.verdict);
  if (!verdicts.length) return null;
  return h("section", { class: "verdict", "aria-label": "Verdict" }, verdicts.map(({ title, fields }) => {
    const rest = fields.slice(MOST_FIELDS);
    return fold({ class: "section" }, h("h2", {}, title), () => [
      fieldList(fields.slice(0, MOST_FIELDS), place),
      rest.length ? fold({ class: "fold verdict-rest" }, h("span", { class: "fold-name" }, `${rest.length} more`),
        () => fieldList(rest, place)) : null,
    ], { open: true });
  }));
}

// Short fields first, which share lines.
function fieldList(fields, place) {
  const [short, long] = [true, false].map((wanted) => fields.filter(({ value }) => isShort(value) === wanted));
  return h("dl", { class: "fields" }, [...short, ...long].map((field) => verdictField(field, place)));
}

function verdictField(field, place) {
  const { name, value, is_json: isJson } = field;
  if (isShort(value)) return fieldNode(field, place);
  if (!isJson) return fieldNode(field, place, { excerpt: VERDICT_EXCERPT, spared: SPARED });
  const preview = h("span", { class: "fold-preview" }, cut(oneLine(value.text), PREVIEW));
  const tree = () => new TextBlock(value, { place, format: "json" }).node;
  return h("div", {}, h("dt", {}, words(name)), h("dd", {}, fold({ class: "fold" }, preview, tree)));
}
