// The charts of the overview. Every bar leads to the list of the rollouts it counts.

import { columns, histogram, lines, ranking } from "./charts.js";
import { h } from "./dom.js";
import { changed } from "./filter_params.js";
import {
  axisMoment, compact, count, counted, cut, momentWords, number, percent, seconds, words,
} from "./format.js";
import { tiles } from "./overview_tiles.js";
import { address, link } from "./router.js";

const MOST_ROWS = 12;

// All of an answer. `way` is where bars lead to: `params` are those that are filtered by, `root` is the
// address of the source, and `list(changes)` that of the list with these filters and something more.
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
    answer.kinds.length || answer.causes.length
      ? h("div", { class: "panels two" }, kindsPanel(answer.kinds, way), causesPanel(answer.causes, way)) : null,
    h("div", { class: "panels rest" },
      answer.pass_at.length ? passAtPanel(answer.pass_at) : null,
      answer.tools.length ? toolsPanel(answer.tools, way) : null,
      answer.endings.length ? endingsPanel(answer.endings, way) : null),
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
  // Rewards on another scale than shares are left to their own chart.
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
  const note = causes.length > shown.length ? `the ${MOST_ROWS} most frequent of ${causes.length}` : null;
  const heads = ["Rollouts", "Cause", "Example"].map((name) => h("th", { scope: "col", text: name }));
  return panel("Errors by cause", note, h("table", { class: "causes" },
    h("thead", { class: "visually-hidden" }, h("tr", {}, heads)),
    h("tbody", {}, shown.map((cause) => causeRow(cause, way)))));
}

function causeRow({ id, kind, text, entries, retried, example }, way) {
  // Attempts that others followed are only listed when they are asked for.
  const status = retried && !way.params.has("status") ? { status: ["failed", "retried"] } : {};
  const filter = changed(way.params, { cause: id, ...status });
  const list = {
    href: address(`${way.root}rollouts`, filter), class: "clip-2", title: text, data: { key: `cause ${id}` },
  };
  const one = {
    href: address(`${way.root}rollouts/${example}`, filter),
    "aria-label": `An example of: ${cut(text, 80)}`,
  };
  return h("tr", {},
    h("td", { class: "number", text: count(entries) }),
    h("td", {}, link(list, text), h("span", { class: "muted", text: words(kind) })),
    h("td", {}, example === null ? null : link(one, "example")));
}

function passAtPanel(passAt) {
  // Not every task has as many repeats as some.
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
      name: words(ending || "not said"), value: rollouts,
      href: ending ? way.list({ ending }) : null,
      tip: `${words(ending || "not said")}: ${counted(rollouts, "rollout")}`,
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
