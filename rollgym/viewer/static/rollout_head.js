// The head of a rollout's page: its title, outcome, facts, neighbours and other repeats.

import { get } from "./api.js";
import { fill, h, refill } from "./dom.js";
import { bytes, compact, count, moment, seconds } from "./format.js";
import { badge, repeatCell } from "./outcome.js";
import { link, navigate } from "./router.js";

// Links to the rollouts before and after this one in the filtered list.

export class Neighbours {
  // `path` is the path of the request; `address(id)` is the address of a rollout.
  constructor({ path, address }) {
    this.path = path;
    this.address = address;
    this.asking = null;
    this.known = null;
    this.wanted = null; // the direction that was requested before the neighbours were known
    this.node = h("nav", { class: "walk", "aria-label": "Neighbours in the list" });
  }

  // In the list with this filter.
  async ask(filter) {
    this.asking?.abort();
    this.asking = new AbortController();
    const { signal } = this.asking;
    try {
      const known = await get(this.path, filter, { signal });
      if (signal.aborted) return;
      this.known = known;
    } catch (error) {
      if (signal.aborted) return;
      this.known = { error };
    }
    this.#draw();
    if (this.wanted) this.goTo(this.wanted);
  }

  // `which`: "previous" or "next".
  goTo(which) {
    this.wanted = this.known ? null : which;
    const id = this.known?.[which];
    if (id) navigate(this.address(id));
  }

  destroy() {
    this.asking?.abort();
  }

  #draw() {
    const { previous, next, position, total, error } = this.known;
    if (error) {
      fill(this.node, h("span", { class: "muted", title: error.message }, "neighbours unknown"));
      return;
    }
    const way = (id, sign, name) => id
      ? link({ href: this.address(id), class: "button", "aria-label": name, data: { tip: name, key: name } }, sign)
      : h("button", { type: "button", disabled: true, "aria-label": name }, sign);
    refill(this.node,
      h("span", { class: "muted" }, position ? `${count(position)} of ${count(total)}` : `not in the list of ${count(total)}`),
      way(previous, "‹", "Previous rollout ([)"), way(next, "›", "Next rollout (])"));
  }
}

const MOST_CELLS = 64;

// `answer` is the server's response for the rollout `id`. `addresses`: `list` leads back to the list,
// `compare` to all repeats, `of(id)` to another rollout. `tools` and `walk` are shown at the top.
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
    ["started", summary.started === null ? null : moment(summary.started)],
    ["size", bytes(view.bytes)],
  ];
  const known = facts.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" },
    known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

// The task's other repeats as cells, and a link to all of them side by side.
function repeatsOf(id, { view: { summary }, siblings, is_outcome: isOutcome }, addresses) {
  // A retried attempt replaces its repeat in the row.
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
