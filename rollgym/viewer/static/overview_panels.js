// The charts of the overview. Every bar leads to the list of the rollouts it counts.

import { columns, histogram, lines, ranking, stacked } from "./charts.js";
import { h } from "./dom.js";
import { changed, isFiltered } from "./filter_params.js";
import {
  axisMoment, compact, count, counted, cut, momentWords, number, percent, seconds, words,
} from "./format.js";
import { address, link } from "./router.js";

// The overview in numbers: how many rollouts there are and how they ended, rewards, successes.

const MEANS = "The mean is over all rollouts with a reward. The success rate is over those that were judged, "
  + "without those that a page blocked.";

// `way`: see overview_panels.js.
export function tiles({ coverage, rollouts, reward, judged, successes, ...answer }, way) {
  const { mean_reward: mean, success_rate: success } = answer;
  const filtered = isFiltered(way.params);
  const all = coverage.completed + coverage.failed + coverage.omitted;
  const beside = filtered
    ? [`of ${count(all)} in total`]
    : [
      coverage.expected === null ? "" : `of ${count(coverage.expected)} expected`,
      coverage.unreadable ? counted(coverage.unreadable, "unreadable line") : "",
      coverage.retried ? counted(coverage.retried, "retried attempt") : "",
    ];
  const ofAll = filtered ? tileNote(`All ${count(all)} rollouts, without the filter:`) : null;
  return h("section", { class: "tiles", "aria-label": "Key figures" },
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

// The coverage of the whole source, regardless of filters.
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
  // Tasks that were not run are only shown if there is nothing else.
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
  if (!judged) return "no rollout was judged";
  const others = Math.max(0, (reward?.count ?? 0) - judged);
  return `${count(successes)} of ${count(judged)} judged${others ? `, ${count(others)} not judged` : ""}`;
}

function meter(value, tone) {
  return h("div", { class: "meter", "aria-hidden": "true" },
    h("span", { class: tone, style: { width: value === null ? "0" : `${100 * value}%` } }));
}

// The position of the mean between the smallest reward (at most 0) and the largest (at least 1).
function share(mean, { min, max }) {
  const low = Math.min(0, min);
  const high = Math.max(1, max);
  return mean === null ? null : (mean - low) / (high - low);
}

function range({ count: many, min, max, median }) {
  return `of ${count(many)}: from ${number(min)} to ${number(max)}, median ${number(median)}`;
}

const MOST_ROWS = 12;

// All panels of an overview. `way` has the links: `params` are the active filters, `root` is the address
// of the source, and `list(changes)` is the address of the list with these filters and some changes.
export function panels(answer, way) {
  return [
    tiles(answer, way),
    h("div", { class: "panels two" },
      distribution("Reward", "reward", answer.reward, number, way, 190),
      overTimePanel(answer.over_time, way)),
    h("div", { class: "panels four" },
      distribution("Steps", "steps", answer.steps, count, way),
      distribution("Tool calls", "tool_calls", answer.tool_calls, count, way),
      distribution("Tokens", "tokens", answer.tokens, compact, way),
      distribution("Duration", "seconds", answer.seconds, seconds, way)),
    h("div", { class: "panels two" },
      signsPanel(answer, way), kindsPanel(answer.kinds, way), causesPanel(answer.causes, way)),
    h("div", { class: "panels rest" },
      answer.pass_at.length ? passAtPanel(answer.pass_at) : null,
      answer.tools.length ? toolsPanel(answer.tools, way) : null,
      answer.endings.length ? endingsPanel(answer.endings, way) : null,
      answer.versions.length ? versionsPanel(answer.versions, way) : null),
  ];
}

function distribution(title, name, data, format, way, height = 140) {
  if (!data) return panel(title, null, blank(height, "Not recorded"));
  const low = way.params.get(`min_${name}`);
  const high = way.params.get(`max_${name}`);
  return panel(title, spread(data, format), histogram({
    bins: data.bins, label: title, format, height,
    hrefOf: (bin) => way.list({ [`min_${name}`]: bin.min, [`max_${name}`]: bin.max }),
    chosen: (bin) => low === String(bin.min) && high === String(bin.max),
  }));
}

function overTimePanel(overTime, way) {
  const points = overTime?.points ?? [];
  const title = "Success over time";
  const judged = points.some((point) => point.judged);
  const means = points.map((one) => one.mean_reward).filter((mean) => mean !== null);
  if (!judged && !means.length) return panel(title, null, blank(190, "No rollout was judged."));
  const timed = overTime.by === "time";
  const span = points.at(-1).to - points[0].from;
  const rewards = {
    name: "mean reward", class: "reward", plain: judged, values: points.map((one) => one.mean_reward),
  };
  const successes = {
    name: "success rate", class: "success",
    values: points.map((one) => (one.judged ? one.successes / one.judged : null)),
  };
  // Rewards beyond 0 to 1 are only shown in their own chart.
  const alike = means.length && means.every((mean) => mean >= 0 && mean <= 1);
  const series = !judged ? [rewards] : alike ? [successes, rewards] : [successes];
  const key = h("span", { class: "series" },
    series.map((one) => h("span", { class: `series-name ${one.class}`, text: one.name })));
  return panel(title, key, lines({
    label: title, height: 190, series, format: judged ? percent : number,
    points: points.map((point) => ({
      x: timed ? axisMoment(point.from, span) : `no. ${count(point.from)}`,
      words: pointWords(point, timed),
      href: way.list(timed
        ? { min_started: point.min, max_started: point.max }
        : { min_record: point.min, max_record: point.max }),
    })),
  }));
}

// What deserves a look. A success without a tool call does only where no rollout called a tool.
function signsPanel({ signs, judged, rollouts, tool_calls: calls }, way) {
  const shown = signs.filter(({ sign }) => sign !== "success_without_tools" || !calls || calls.max === 0);
  if (!shown.length) return null;
  return panel("Deserves a look", "by completed rollouts", ranking({
    label: "Deserves a look",
    items: shown.map(({ sign, rollouts: many, meaning }) => ({
      name: words(sign), value: many, tone: "warn", href: way.list({ sign }),
      note: `${percent(many / (judged || rollouts))} · ${meaning}`,
      tip: `${words(sign)}: ${counted(many, "rollout")}. ${meaning}`,
    })),
  }));
}

function kindsPanel(kinds, way) {
  if (!kinds.length) return null;
  return panel("Failures by kind", null, ranking({
    label: "Failures by kind",
    items: kinds.map(({ kind, failed, retried, meaning }) => ({
      name: words(kind),
      value: failed || retried,
      tone: failed ? "failed" : "warn",
      note: failed ? (retried ? `and ${count(retried)} retried` : "") : "all retried",
      tip: `${words(kind)}: ${count(failed)} failed, ${count(retried)} retried. ${meaning}`,
      href: way.list({ kind, status: failed ? null : "retried" }),
    })),
  }));
}

function causesPanel(causes, way) {
  if (!causes.length) return null;
  const shown = causes.slice(0, MOST_ROWS);
  const note = causes.length > shown.length ? `${MOST_ROWS} most frequent of ${causes.length}` : null;
  const heads = ["Rollouts", "Cause", "Example"].map((name) => h("th", { scope: "col", text: name }));
  return panel("Failures by cause", note, h("table", { class: "causes" },
    h("thead", { class: "visually-hidden" }, h("tr", {}, heads)),
    h("tbody", {}, shown.map((cause) => causeRow(cause, way)))));
}

function causeRow({ id, kind, text, entries, retried, example }, way) {
  // Retried attempts are only listed with the status `retried`.
  const status = retried && !way.params.has("status") ? { status: ["failed", "retried"] } : {};
  const filter = changed(way.params, { cause: id, ...status });
  const list = {
    href: address(`${way.root}rollouts`, filter), class: "clip-2", title: text, data: { key: `cause ${id}` },
  };
  const one = {
    href: address(`${way.root}rollouts/${example}`, filter),
    "aria-label": `Example of: ${cut(text, 80)}`,
  };
  return h("tr", {},
    h("td", { class: "number", text: count(entries) }),
    h("td", {}, link(list, text), h("span", { class: "muted", text: words(kind) })),
    h("td", {}, example === null ? null : link(one, "example")));
}

function passAtPanel(passAt) {
  // Some tasks may have fewer repeats than others.
  const { tasks } = passAt[0];
  const fewer = passAt.find((one) => one.tasks < tasks);
  const note = `over ${counted(tasks, "task")}${fewer ? `; from k = ${fewer.k} over fewer` : ""}`;
  return panel("pass@k", note, columns({
    label: "pass@k", height: 170,
    items: passAt.map((one) => ({
      label: `k=${one.k}`, value: one.value,
      words: `pass@${one.k}: ${percent(one.value)}, over ${counted(one.tasks, "task")}`,
    })),
  }));
}

function toolsPanel(tools, way) {
  return panel("Tools", "by calls", ranking({
    label: "Tools",
    items: tools.slice(0, MOST_ROWS).map((tool) => ({
      name: tool.name, value: tool.calls, href: way.list({ tool: tool.name }),
      tip: `${tool.name}: ${counted(tool.calls, "call")} in ${counted(tool.rollouts, "rollout")}`,
    })),
  }));
}

function endingsPanel(endings, way) {
  return panel("Endings", "by rollouts", ranking({
    label: "Endings",
    items: endings.slice(0, MOST_ROWS).map(({ ending, rollouts }) => ({
      name: words(ending || "unknown"), value: rollouts,
      href: ending ? way.list({ ending }) : null,
      tip: `${words(ending || "unknown")}: ${counted(rollouts, "rollout")}`,
    })),
  }));
}

// The latest versions, the newest first.
function versionsPanel(versions, way) {
  return panel("Policy versions", versions.length > MOST_ROWS ? "the latest, by rollouts" : "by rollouts", ranking({
    label: "Policy versions",
    items: versions.slice(-MOST_ROWS).reverse().map(({ version, rollouts, turns }) => ({
      name: version, value: rollouts, href: way.list({ version }),
      tip: `${version}: ${counted(turns, "turn")} in ${counted(rollouts, "rollout")}`,
    })),
  }));
}

function panel(title, note, content) {
  return h("section", { class: "panel", "aria-label": title },
    h("header", {}, h("h2", { text: title }), note ? h("span", { class: "panel-note muted" }, note) : null),
    content);
}

function blank(height, text) {
  return h("p", { class: "blank muted", style: { "min-height": `${height}px` } }, text);
}

function spread(data, format) {
  return `median ${format(data.median)} · p90 ${format(data.p90)}`;
}

function pointWords(point, timed) {
  const when = timed
    ? `${momentWords(point.from)} to ${momentWords(point.to)}`
    : `rollouts ${count(point.from)} to ${count(point.to)}`;
  const judged = point.judged ? `, ${percent(point.successes / point.judged)} of ${count(point.judged)} succeeded` : "";
  const mean = point.mean_reward === null ? "" : `, mean reward ${number(point.mean_reward)}`;
  return `${when}: ${counted(point.rollouts, "rollout")}${judged}${mean}`;
}
