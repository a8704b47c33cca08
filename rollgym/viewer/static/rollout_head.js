// The head of a rollout's page: what it is, what it came to, and the other repeats of its task.

import { h } from "./dom.js";
import { bytes, compact, count, moment, seconds } from "./format.js";
import { badge, repeatCell } from "./outcome.js";
import { link } from "./router.js";

const MOST_CELLS = 64;

// `answer` is what the server says of the rollout `id`. `addresses`: `list` leads back to the list,
// `compare` to all repeats, `of(id)` to another rollout. `tools` and `walk` stand beside the way back.
export function rolloutHead({ id, answer, addresses, tools, walk }) {
  const { view } = answer;
  const { summary } = view;
  return h("header", { class: "rollout-head" },
    h("div", { class: "rollout-top" },
      link({ href: addresses.list, class: "back" }, "‹ Rollouts"), tools, walk),
    h("h1", { dir: "auto" }, view.title || summary.facts?.title || `Rollout ${id}`),
    h("div", { class: "rollout-outcome" }, badge(summary), factsOf(view)),
    repeatsOf(id, answer, addresses));
}

function factsOf(view) {
  const { summary } = view;
  const tokens = summary.input_tokens === null && summary.output_tokens === null ? null
    : h("span", { title: `${count(summary.input_tokens)} in, ${count(summary.output_tokens)} out` },
      `${compact(summary.input_tokens)} in / ${compact(summary.output_tokens)} out`);
  const facts = [
    ["task", summary.task === null ? null : count(summary.task)],
    ["repeat", summary.repeat],
    ["attempt", summary.attempt],
    [view.steps ? "steps" : "turns", view.steps || view.turns || null],
    ["tokens", tokens],
    ["duration", summary.seconds === null ? null : seconds(summary.seconds)],
    ["ending", summary.ending],
    ["model", summary.model],
    ["agent", summary.facts?.agent],
    ["domain", summary.facts?.domain],
    ["difficulty", summary.facts?.difficulty],
    ["began", summary.started === null ? null : moment(summary.started)],
    ["size", bytes(view.bytes)],
  ];
  const known = facts.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" },
    known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

// The task's other repeats as cells, and the way to all of them side by side.
function repeatsOf(id, { view: { summary }, siblings, is_outcome: isOutcome }, addresses) {
  // An attempt that another followed is shown in the place of its repeat, not beside it.
  const isOther = (each) => each.id !== id && (isOutcome || each.repeat !== summary.repeat);
  const others = siblings.filter(isOther);
  const all = [...others, { ...summary, id }].sort((a, b) => (a.repeat ?? 0) - (b.repeat ?? 0));
  if (all.length < 2) return null;
  const cell = (each) => {
    const [props, sign] = repeatCell(each);
    return each.id === id
      ? h("span", { ...props, role: "img", "aria-current": "page" }, sign)
      : link({ href: addresses.of(each.id), ...props }, sign);
  };
  return h("div", { class: "siblings" }, h("span", { class: "muted" }, "Repeats"),
    h("span", { class: "repeat-cells" }, all.slice(0, MOST_CELLS).map(cell)),
    link({ href: addresses.compare, class: "button" }, "Compare repeats"));
}
