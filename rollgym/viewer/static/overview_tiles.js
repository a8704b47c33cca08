// The overview in numbers: how many rollouts there are and how they ended, rewards, successes.

import { stacked } from "./charts.js";
import { h } from "./dom.js";
import { isFiltered } from "./filter_params.js";
import { count, counted, number, percent } from "./format.js";
import { address, link } from "./router.js";

const MEANS = "The mean is of all that have a reward. The success rate is of those that were judged, "
  + "without those that a page blocked.";

// `way`: see overview_panels.js.
export function tiles({ coverage, rollouts, reward, judged, successes, ...answer }, way) {
  const { mean_reward: mean, success_rate: success } = answer;
  const filtered = isFiltered(way.params);
  const all = coverage.completed + coverage.failed + coverage.omitted;
  const beside = filtered
    ? [`of ${count(all)} in all`]
    : [
      coverage.expected === null ? "" : `of ${count(coverage.expected)} expected`,
      coverage.unreadable ? counted(coverage.unreadable, "unreadable line") : "",
      coverage.retried ? counted(coverage.retried, "retried attempt") : "",
    ];
  const ofAll = filtered ? tileNote(`All ${count(all)}, without the filter:`) : null;
  return h("section", { class: "tiles", "aria-label": "In numbers" },
    tile("Rollouts", link({ href: way.list({}), data: { key: "rollouts" } }, count(rollouts)), {
      wide: true, beside: beside.filter(Boolean).join(" · "), below: [ofAll, coverageBar(coverage, way)],
    }),
    tile("Mean reward", number(mean), {
      below: [meter(reward && share(mean, reward), ""), tileNote(reward ? range(reward) : "no rewards", MEANS)],
    }),
    tile("Success rate", percent(success), {
      below: [
        meter(success, "good"),
        tileNote(judgedWords(successes, judged, reward), MEANS),
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

function tileNote(text, tip = null) {
  return h("p", { class: "tile-note muted", text, data: { tip } });
}

function judgedWords(successes, judged, reward) {
  if (!judged) return "none was judged";
  const others = Math.max(0, (reward?.count ?? 0) - judged);
  return `${count(successes)} of ${count(judged)} judged${others ? `, ${count(others)} not judged` : ""}`;
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

function range({ count: many, min, max, median }) {
  return `of ${count(many)}: from ${number(min)} to ${number(max)}, median ${number(median)}`;
}
