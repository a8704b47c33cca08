// The overview in numbers: how many rollouts there are and how they ended, rewards, successes.

import { stacked } from "./charts.js";
import { h } from "./dom.js";
import { isFiltered } from "./filter_params.js";
import { count, counted, number, percent } from "./format.js";
import { address, link } from "./router.js";

// `way`: see overview_panels.js.
export function tiles({ coverage, rollouts, reward, ...answer }, way) {
  const { mean_reward: mean, success_rate: success } = answer;
  const points = answer.over_time?.points ?? [];
  const judged = points.reduce((sum, point) => sum + point.judged, 0);
  const successes = points.reduce((sum, point) => sum + point.successes, 0);
  const beside = isFiltered(way.params)
    ? [`of ${count(coverage.completed + coverage.failed + coverage.omitted)} in all`]
    : [
      coverage.expected === null ? "" : `of ${count(coverage.expected)} expected`,
      coverage.retried ? counted(coverage.retried, "retried attempt") : "",
    ];
  return h("section", { class: "tiles", "aria-label": "In numbers" },
    tile("Rollouts", link({ href: way.list({}), data: { key: "rollouts" } }, count(rollouts)), {
      wide: true, beside: beside.filter(Boolean).join(" · "), below: coverageBar(coverage, way),
    }),
    tile("Mean reward", number(mean), {
      below: [meter(reward && share(mean, reward), ""), tileNote(reward ? range(reward) : "no rewards")],
    }),
    tile("Success rate", percent(success), {
      below: [
        meter(success, "good"),
        tileNote(judged ? `${count(successes)} of ${count(judged)} judged` : "none was judged"),
      ],
    }));
}

// Of the whole source, whatever is filtered.
function coverageBar(coverage, way) {
  const part = (name, value, tone, status) => ({
    name, value, tone, href: status ? address(`${way.root}rollouts`, { status }) : null,
  });
  const parts = [
    part("completed", coverage.completed, "good", "completed"),
    part("failed", coverage.failed, "failed", "failed"),
    part("omitted", coverage.omitted, "warn", "omitted"),
  ];
  if (coverage.unresolved !== null) parts.push(part("unresolved", coverage.unresolved, "none", null));
  if (coverage.unreadable) parts.push(part("unreadable", coverage.unreadable, "bad", "unreadable"));
  // Tasks that wait to be run are shown where there is nothing else.
  if (coverage.inputs && !coverage.completed) parts.push(part("inputs", coverage.inputs, "info", "input"));
  return stacked({ label: "Coverage", parts });
}

function tile(title, value, { wide = false, beside = "", below }) {
  return h("div", { class: wide ? "tile wide" : "tile" },
    h("div", { class: "tile-head" },
      h("h2", { class: "tile-title", text: title }),
      h("span", { class: "tile-value" }, value),
      h("span", { class: "tile-note muted", text: beside })),
    below);
}

function tileNote(text) {
  return h("p", { class: "tile-note muted", text });
}

function meter(value, tone) {
  return h("div", { class: "meter", "aria-hidden": "true" },
    h("span", { class: tone, style: { width: value === null ? "0" : `${100 * value}%` } }));
}

// Where the mean is between the least and the largest, which are 0 and 1 at least.
function share(mean, { min, max }) {
  const low = Math.min(0, min);
  const high = Math.max(1, max);
  return mean === null ? null : (mean - low) / (high - low);
}

function range({ min, max, median }) {
  return `from ${number(min)} to ${number(max)}, median ${number(median)}`;
}
