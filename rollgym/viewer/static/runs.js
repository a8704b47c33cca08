// All open runs: their coverage and scores, a selection of two to compare, and their configurations.

import { stacked } from "./charts.js";
import { configuration } from "./configuration.js";
import { fill, h, refill } from "./dom.js";
import { count, counted, number, percent } from "./format.js";
import { empty } from "./notices.js";
import { address, link, navigate } from "./router.js";
import { onSource, shareRead, sources } from "./state.js";

const PAUSE = 500;
// By the number of runs that are still to be selected.
const HINTS = ["Two runs are selected; deselect one to choose another", "Select one more run", "Select two runs to compare"];

export function runsView(container) {
  const all = sources();
  if (all.length === 1) {
    // Later: this view is still being created.
    queueMicrotask(() => navigate(`/s/${encodeURIComponent(all[0].id)}/`, { replace: true }));
    return { destroy() {} };
  }
  return all.length ? new Runs(container) : noRuns(container);
}

// Shown until there is a run. Several may appear together, so it waits a moment for the others.
function noRuns(container) {
  container.append(h("div", { class: "page runs" },
    h("h1", { text: "Runs" }),
    empty("No runs yet",
      "Rollouts and runs appear here as soon as they are written to the opened folder.")));
  let timer = null;
  const off = onSource((source) => {
    if (source) timer ??= setTimeout(() => navigate("/", { replace: true }), PAUSE);
  });
  return {
    destroy() {
      off();
      clearTimeout(timer);
    },
  };
}

export function configurationView(container, match, params) {
  const box = h("div", { class: "page" }, h("h1", { text: "Configuration" }));
  container.append(box);
  box.append(configuration(params.getAll("source")));
  return { destroy() {} };
}

class Runs {
  constructor(container) {
    this.chosen = new Set();
    this.rows = h("tbody", {});
    this.compare = h("button", {
      class: "primary", disabled: true, on: { click: () => this.#compare() },
    }, "Compare");
    this.hint = h("span", { class: "muted", role: "status" });
    this.configuration = h("div", {});
    this.configured = 0;
    container.append(h("div", { class: "page runs" },
      h("div", { class: "page-head" },
        h("h1", { text: "Runs" }), h("span", { class: "spring" }), this.hint, this.compare),
      this.#table(),
      this.configuration));
    this.#draw();
    this.off = onSource(() => this.#soon());
  }

  destroy() {
    this.off();
    clearTimeout(this.timer);
  }

  #soon() {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      this.#draw();
    }, PAUSE);
  }

  #table() {
    const head = ["", "Run", "Coverage", "Rollouts", "Mean reward", "Success", "State"];
    return h("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": "Runs" },
      h("table", { class: "data" },
        h("thead", {}, h("tr", {}, head.map((name, at) => h("th", {
          scope: "col", class: at >= 3 && at <= 5 ? "number" : "",
        }, name || h("span", { class: "visually-hidden", text: "Compare" }))))),
        this.rows));
  }

  #draw() {
    const all = sources();
    refill(this.rows, all.map((source) => this.#row(source)));
    if (all.length !== this.configured) {
      this.configured = all.length;
      fill(this.configuration, configuration());
    }
    const left = 2 - this.chosen.size;
    this.compare.disabled = left > 0;
    this.hint.textContent = HINTS[left];
  }

  #row(source) {
    const { coverage, state } = source;
    const parts = coverageParts(coverage);
    const isChosen = this.chosen.has(source.id);
    const choose = (event) => {
      if (event.target.checked) this.chosen.add(source.id);
      else this.chosen.delete(source.id);
      this.#draw();
    };
    return h("tr", {},
      h("td", {}, h("input", {
        type: "checkbox", checked: isChosen, "aria-label": `Compare ${source.title}`,
        disabled: !isChosen && this.chosen.size > 1,
        data: { key: `choose ${source.id}` }, on: { change: choose },
      })),
      h("td", { class: "run-name" },
        link({
          href: `/s/${encodeURIComponent(source.id)}/`, data: { key: `run ${source.id}` },
        }, source.title),
        h("span", { class: "muted clip", title: source.path }, `${source.kind} · ${source.path}`),
        state.problem ? h("span", { class: "bad run-problem", text: state.problem }) : null),
      h("td", { class: "run-coverage" },
        parts.some(({ value }) => value)
          ? stacked({ parts, label: "Coverage", legend: false }) : h("span", { class: "muted", text: "–" })),
      h("td", { class: "number" },
        count(coverage.completed + coverage.failed + coverage.omitted),
        coverage.expected === null
          ? null : h("span", { class: "muted", text: ` / ${count(coverage.expected)}` }),
        coverage.unreadable
          ? h("span", { class: "bad run-unreadable", text: counted(coverage.unreadable, "unreadable line") }) : null),
      h("td", { class: "number", text: number(source.mean_reward) }),
      h("td", { class: "number", text: percent(source.success_rate) }),
      h("td", { class: "run-state" }, stateOf(source, state)));
  }

  #compare() {
    const order = sources().map(({ id }) => id).filter((id) => this.chosen.has(id));
    navigate(address("/compare", { left: order[0], right: order[1] }));
  }
}

function coverageParts(coverage) {
  return [
    { name: "completed", value: coverage.completed, tone: "good" },
    { name: "failed", value: coverage.failed, tone: "failed" },
    { name: "omitted", value: coverage.omitted, tone: "warn" },
    { name: "unresolved", value: coverage.unresolved ?? 0, tone: "none" },
    { name: "unreadable", value: coverage.unreadable, tone: "bad" },
  ];
}

function stateOf(source, state) {
  if (state.problem) return h("span", { class: "bad", text: "cannot be read" });
  if (!state.ready) return h("span", { class: "muted", text: `reading ${percent(shareRead(state))}` });
  if (source.live) {
    return h("span", { class: "good" }, h("span", { class: "live-dot", "aria-hidden": "true" }), "live");
  }
  const { unresolved } = source.coverage;
  return unresolved
    ? h("span", { class: "warn", text: `stopped, ${count(unresolved)} unresolved` })
    : h("span", { class: "muted", text: "ended" });
}
