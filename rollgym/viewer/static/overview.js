// A source at a glance: how much there is, how good it is, where it went wrong. Every bar leads to
// the list of the rollouts it counts, with what is filtered here kept.

import { get, source as pathsOf } from "./api.js";
import { columns, histogram, lines, ranking, stacked } from "./charts.js";
import { fill, h } from "./dom.js";
import { FilterBar, changed, filterOf, isFiltered } from "./filters.js";
import {
  axisMoment, compact, count, counted, cut, momentWords, number, percent, seconds, words,
} from "./format.js";
import { keys } from "./keyboard.js";
import { empty, failure, skeleton } from "./notices.js";
import { address, link, navigate, onLeave, visit } from "./router.js";
import { nameCause, onVersion, sourceOf } from "./state.js";

const SEARCH_PAUSE = 700;
const MOST_ROWS = 12;

export function overviewView(container, match, params) {
  return new Overview(container, match.source, params);
}

class Overview {
  constructor(container, source, params) {
    this.container = container;
    this.source = source;
    this.root = `/s/${encodeURIComponent(source)}/`;
    this.filters = new FilterBar({
      source, params,
      onChange: (wanted, how) => navigate(address(this.root, filterOf(wanted)), how),
    });
    this.body = h("div", { class: "overview" }, skeleton(7, 14, 12, 14));
    container.append(h("h1", { class: "visually-hidden", text: "Overview" }), this.filters.node, this.body);
    this.scroll = visit()?.scroll ?? 0;
    onLeave(() => ({ scroll: container.scrollTop }));
    this.offKeys = keys({ "/": { words: "Search", run: () => this.filters.focus() } }, "Overview");
    this.offVersion = onVersion(source, () => this.#load());
    this.update(params);
  }

  update(params) {
    this.params = filterOf(params);
    this.filters.update(this.params, null);
    this.#load();
  }

  destroy() {
    this.asking?.abort();
    clearTimeout(this.searching);
    this.filters.destroy();
    this.offKeys();
    this.offVersion();
  }

  async #load() {
    this.asking?.abort();
    clearTimeout(this.searching);
    const control = new AbortController();
    this.asking = control;
    this.body.setAttribute("aria-busy", "true");
    try {
      const answer = await get(pathsOf(this.source).overview, this.params, { signal: control.signal });
      if (!control.signal.aborted) this.#draw(answer);
    } catch (error) {
      if (control.signal.aborted) return;
      fill(this.body, failure(error, () => this.#load()));
    }
    if (!control.signal.aborted) this.body.setAttribute("aria-busy", "false");
  }

  #draw(answer) {
    for (const cause of answer.causes) nameCause(this.source, cause.id, cause.text);
    this.filters.update(this.params, answer.search);
    if (answer.search && !answer.search.done) {
      this.searching = setTimeout(() => this.#load(), SEARCH_PAUSE);
    }
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const anything = answer.rollouts || coverageSum(answer.coverage);
    fill(this.body, anything ? this.#panels(answer) : this.#nothing());
    if (this.scroll) {
      this.container.scrollTop = this.scroll;
      this.scroll = 0;
    }
    if (focused) this.#focus(focused);
  }

  // Charts are drawn once they know their width, which is in the next frame.
  #focus(key) {
    requestAnimationFrame(() => requestAnimationFrame(() => {
      this.body.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
    }));
  }

  #nothing() {
    if (isFiltered(this.params)) {
      return empty("No rollout matches",
        h("button", { on: { click: () => navigate(this.root) } }, "Clear the filters"));
    }
    return sourceOf(this.source)?.state.ready
      ? empty("No rollouts yet", "Charts appear here as rollouts are written.") : empty("Reading the file…");
  }

  #panels(answer) {
    return [
      this.#tiles(answer),
      h("div", { class: "panels two" },
        this.#distribution("Reward", "reward", answer.reward, number, 190),
        this.#overTime(answer.over_time)),
      h("div", { class: "panels four" },
        this.#distribution("Steps", "steps", answer.steps, count),
        this.#distribution("Tool calls", "tool_calls", answer.tool_calls, count),
        this.#distribution("Tokens", "tokens", answer.tokens, compact),
        this.#distribution("Duration", "seconds", answer.seconds, seconds)),
      answer.kinds.length || answer.causes.length
        ? h("div", { class: "panels two" }, this.#kinds(answer.kinds), this.#causes(answer.causes)) : null,
      h("div", { class: "panels rest" },
        answer.pass_at.length ? this.#passAt(answer.pass_at) : null,
        answer.tools.length ? this.#tools(answer.tools) : null,
        answer.endings.length ? this.#endings(answer.endings) : null),
    ];
  }

  // The list with what is filtered here and something more.
  #list(changes) {
    return address(`${this.root}rollouts`, changed(this.params, changes));
  }

  #tiles({ coverage, rollouts, mean_reward: mean, success_rate: success, reward, over_time: time }) {
    const points = time?.points ?? [];
    const judged = points.reduce((sum, point) => sum + point.judged, 0);
    const successes = points.reduce((sum, point) => sum + point.successes, 0);
    const beside = isFiltered(this.params)
      ? [`of ${count(coverage.completed + coverage.failed + coverage.omitted)} in all`]
      : [
        coverage.expected === null ? "" : `of ${count(coverage.expected)} expected`,
        coverage.retried ? counted(coverage.retried, "retried attempt") : "",
      ];
    return h("section", { class: "tiles", "aria-label": "In numbers" },
      tile("Rollouts", link({ href: this.#list({}), data: { key: "rollouts" } }, count(rollouts)), {
        wide: true, beside: beside.filter(Boolean).join(" · "), below: this.#coverage(coverage),
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
  #coverage(coverage) {
    const part = (name, value, tone, status) => ({
      name, value, tone, href: status ? address(`${this.root}rollouts`, { status }) : null,
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

  #distribution(title, name, data, format, height = 140) {
    if (!data) return panel(title, null, blank(height, "Not recorded"));
    const low = this.params.get(`min_${name}`);
    const high = this.params.get(`max_${name}`);
    return panel(title, spread(data, format), histogram({
      bins: data.bins, label: title, format, height,
      hrefOf: (bin) => this.#list({ [`min_${name}`]: bin.min, [`max_${name}`]: bin.max }),
      chosen: (bin) => low === String(bin.min) && high === String(bin.max),
    }));
  }

  #overTime(overTime) {
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
        href: this.#list(timed
          ? { min_started: point.min, max_started: point.max }
          : { min_record: point.min, max_record: point.max }),
      })),
    }));
  }

  #kinds(kinds) {
    if (!kinds.length) return null;
    return panel("Failures by kind", null, ranking({
      label: "Failures by kind",
      items: kinds.map(({ kind, failed, retried, meaning }) => ({
        name: words(kind),
        value: failed || retried,
        tone: failed ? "failed" : "warn",
        note: failed ? (retried ? `and ${count(retried)} retried` : "") : "all retried",
        tip: `${words(kind)}: ${count(failed)} failed, ${count(retried)} retried. ${meaning}`,
        href: this.#list({ kind, status: failed ? null : "retried" }),
      })),
    }));
  }

  #causes(causes) {
    if (!causes.length) return null;
    const shown = causes.slice(0, MOST_ROWS);
    const note = causes.length > shown.length ? `the ${MOST_ROWS} most frequent of ${causes.length}` : null;
    const heads = ["Rollouts", "Cause", "Example"].map((name) => h("th", { scope: "col", text: name }));
    return panel("Errors by cause", note, h("table", { class: "causes" },
      h("thead", { class: "visually-hidden" }, h("tr", {}, heads)),
      h("tbody", {}, shown.map((cause) => this.#cause(cause)))));
  }

  #cause({ id, kind, text, entries, retried, example }) {
    // Attempts that others followed are only listed when they are asked for.
    const status = retried && !this.params.has("status") ? { status: ["failed", "retried"] } : {};
    const filter = changed(this.params, { cause: id, ...status });
    const list = {
      href: address(`${this.root}rollouts`, filter), class: "clip-2", title: text, data: { key: `cause ${id}` },
    };
    const one = {
      href: address(`${this.root}rollouts/${example}`, filter),
      "aria-label": `An example of: ${cut(text, 80)}`,
    };
    return h("tr", {},
      h("td", { class: "number", text: count(entries) }),
      h("td", {}, link(list, text), h("span", { class: "muted", text: words(kind) })),
      h("td", {}, example === null ? null : link(one, "example")));
  }

  #passAt(passAt) {
    return panel("pass@k", `over ${counted(passAt[0].tasks, "task")}`, columns({
      label: "pass@k", height: 170,
      items: passAt.map((one) => ({
        label: `k=${one.k}`, value: one.value,
        words: `pass@${one.k}: ${percent(one.value)}, over ${counted(one.tasks, "task")}`,
      })),
    }));
  }

  #tools(tools) {
    return panel("Tools", "by calls", ranking({
      label: "Tools",
      items: tools.slice(0, MOST_ROWS).map((tool) => ({
        name: tool.name, value: tool.calls, href: this.#list({ tool: tool.name }),
        tip: `${tool.name}: ${counted(tool.calls, "call")} in ${counted(tool.rollouts, "rollout")}`,
      })),
    }));
  }

  #endings(endings) {
    return panel("Endings", "by rollouts", ranking({
      label: "Endings",
      items: endings.slice(0, MOST_ROWS).map(({ ending, rollouts }) => ({
        name: words(ending || "not said"), value: rollouts,
        href: ending ? this.#list({ ending }) : null,
        tip: `${words(ending || "not said")}: ${counted(rollouts, "rollout")}`,
      })),
    }));
  }
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

function coverageSum({ completed, failed, omitted, unresolved, unreadable, inputs }) {
  return completed + failed + omitted + (unresolved ?? 0) + unreadable + inputs;
}
