// A live run: the grid of the task monitor (one for each rank), the running rollouts, the rate and the
// time left. Without a current monitor, the grid comes from the index, which knows the rollout of each
// square; if there never was a monitor, the rate comes from the index too.

import { get, source as pathsOf } from "./api.js";
import { Boards, MARKS } from "./cells.js";
import { ranking } from "./charts.js";
import { fill, h, refill } from "./dom.js";
import { count, counted, number, percent, seconds, words } from "./format.js";
import { CellRollouts, isSilent, joinSnapshots } from "./monitors.js";
import { failure, skeleton } from "./notices.js";
import { address, link } from "./router.js";
import { onMonitor, onSource, onVersion, sourceOf } from "./state.js";

const ENDED = ["success", "failure", "blocked", "failed", "omitted", "earlier"];
const MOST_LIVE = 200;
const TICK = 1000;
const NOTHING = { cells: "", rollouts_per_cell: 1 };
const FILTERS = {
  success: { success: "true" }, failure: { success: "false" },
  failed: { status: "failed" }, omitted: { status: "omitted" },
};

export function liveView(container, match) {
  return new Live(container, match.source);
}

class Live {
  constructor(container, source) {
    this.source = source;
    this.root = `/s/${encodeURIComponent(source)}/`;
    this.title = h("h1", { text: "Live" });
    this.note = h("span", { class: "muted", role: "status" });
    this.numbers = h("dl", { class: "live-numbers" }, skeleton(3.5));
    this.legend = h("ul", { class: "states live-states", "aria-label": "States" });
    this.boards = new Boards(this.root);
    this.cellRollouts = new CellRollouts();
    this.running = h("section", { class: "panel", "aria-label": "Running now" });
    this.failures = h("section", { class: "panel", "aria-label": "Failed attempts" });
    this.problem = h("div", {});
    this.panels = h("div", { class: "panels live-panels" }, this.running, this.failures);
    this.elapsed = h("span", {});
    container.append(h("div", { class: "page live" },
      h("div", { class: "page-head" }, this.title, this.note),
      this.problem, this.numbers,
      h("section", { class: "panel", "aria-label": "Rollouts by state" }, this.legend, this.boards.node),
      this.panels));
    this.unsubscribe = [
      onMonitor(source, (snapshots) => this.#heard(snapshots)),
      onVersion(source, () => this.#load()),
      onSource(() => this.#sourceChanged()),
    ];
    this.clock = setInterval(() => this.#tick(), TICK);
    this.#load();
  }

  destroy() {
    clearInterval(this.clock);
    for (const off of this.unsubscribe) off();
    this.boards.destroy();
  }

  async #load() {
    this.loading = true;
    try {
      const answer = await get(pathsOf(this.source).monitor);
      fill(this.problem);
      const snapshots = answer.snapshots.filter(hasCells);
      this.cellRollouts.learn(snapshots);
      this.#draw({ ...answer, snapshots });
    } catch (error) {
      fill(this.problem, failure(error, () => this.#load()));
    } finally {
      this.loading = false;
    }
  }

  #heard(said) {
    const snapshots = said.filter(hasCells);
    this.#draw({ ...this.answer, snapshots: this.cellRollouts.addTo(snapshots) });
    if (!this.loading && this.cellRollouts.isBehind(snapshots)) this.#load();
  }

  #draw(answer) {
    this.answer = answer;
    const { grid, snapshots } = answer;
    const snapshot = joinSnapshots(snapshots);
    this.snapshot = snapshot;
    this.silent = snapshots.filter(isSilent).length;
    this.over = this.#isOver();
    // A monitor knows what runs; the index knows what ended.
    const watched = snapshot && !this.over;
    const counts = (watched ? snapshot : grid)?.counts ?? {};
    this.counts = counts;
    this.title.textContent = snapshot?.title ? `Live: ${snapshot.title}` : "Live";
    this.boards.draw(watched ? snapshots.map(asBoard) : [grid ?? NOTHING]);
    refill(this.legend, this.#legend(counts));
    this.#drawNumbers();
    this.running.hidden = !watched;
    if (watched) this.#drawRunning(snapshot.live ?? []);
    else fill(this.running);
    this.#drawFailures(Object.entries(snapshot?.failures ?? {}));
    this.panels.hidden = this.running.hidden && this.failures.hidden;
    this.#drawNote();
  }

  #drawNumbers() {
    const { snapshot, counts } = this;
    const pace = snapshot ? watchedPace(snapshot, counts) : this.#writtenPace();
    fill(this.numbers, [...countsOf(counts), ...pace].map(
      ([name, value, note]) => h("div", {},
        h("dt", { text: name }),
        h("dd", {}, value, note ? h("span", { class: "muted", text: ` ${note}` }) : null))));
  }

  // The pace from the times of the rollouts in the index.
  #writtenPace() {
    const { started = null, rate, left_seconds: left } = sourceOf(this.source) ?? {};
    if (started === null) return [];
    this.#drawElapsed();
    const elapsed = ["Elapsed", this.elapsed];
    if (this.over) return [elapsed];
    return [elapsed, ["Rate", rateWords(rate)], ["Time left", left === null ? "–" : `about ${seconds(left)}`]];
  }

  // Updates the elapsed time, and notices monitors that became silent.
  #tick() {
    const silent = this.answer?.snapshots.filter(isSilent).length;
    if (silent !== this.silent) this.#draw(this.answer);
    this.#drawElapsed();
  }

  #drawElapsed() {
    const { started = null, latest } = sourceOf(this.source) ?? {};
    if (started === null) return;
    const end = this.over ? latest : Date.now() / 1000;
    this.elapsed.textContent = seconds(Math.max(0, Math.round(end - started)));
  }

  #sourceChanged() {
    if (!this.answer) return; // nothing is drawn yet
    if (this.#isOver() !== this.over) {
      this.#draw(this.answer);
    } else {
      this.#drawNumbers();
      this.#drawNote();
    }
  }

  // Whether the run is over: the index is complete and the source is not live. Monitors do not decide: a
  // run may have been killed, and one rank may finish before the next one starts.
  #isOver() {
    const source = sourceOf(this.source);
    return Boolean(source?.state.ready && !source.live);
  }

  #drawNote() {
    const { snapshot } = this;
    this.note.textContent = [
      this.over ? endWords(this.counts) : sourceOf(this.source)?.live ? "Updates automatically." : "",
      snapshot?.stopping ? `Stopping: ${snapshot.stopping}` : "",
      snapshot?.missed
        ? `The monitor missed ${counted(snapshot.missed, "event")}; counts may be too low.` : "",
    ].filter(Boolean).join(" ");
  }

  #legend(counts) {
    return MARKS.filter(({ state }) => counts[state]).map((mark) => {
      const content = [
        h("span", { class: `cell-sign is-${mark.state}`, "aria-hidden": "true", text: mark.sign }),
        h("span", { class: "states-name", text: mark.words }),
        h("strong", { text: count(counts[mark.state]) }),
      ];
      const filter = FILTERS[mark.state];
      return h("li", {}, filter
        ? link({ href: address(`${this.root}rollouts`, filter), data: { key: mark.state } }, content)
        : h("span", {}, content));
    });
  }

  // Called about every second: keeps the scroll position of the table.
  #drawRunning(live) {
    const scrolled = this.running.querySelector(".table-box")?.scrollTop ?? 0;
    const note = live.length > MOST_LIVE ? `${MOST_LIVE} slowest of ${count(live.length)}` : "";
    refill(this.running,
      h("header", {}, h("h2", { text: "Running now" }), h("span", { class: "panel-note muted", text: note })),
      live.length
        ? runningTable(live.slice(0, MOST_LIVE), this.root) : h("p", { class: "muted", text: "No rollout is running." }));
    if (live.length) this.running.querySelector(".table-box").scrollTop = scrolled;
  }

  #drawFailures(kinds) {
    this.failures.hidden = !kinds.length;
    refill(this.failures, h("header", {}, h("h2", { text: "Failed attempts" })), ranking({
      label: "Failed attempts",
      items: kinds.sort((a, b) => b[1] - a[1]).map(([kind, value]) => ({
        name: words(kind), value, tone: "failed",
        href: `${address(`${this.root}rollouts`, { kind })}&status=failed&status=retried`,
      })),
    }));
  }
}

// The file of a monitor may have any content.
function hasCells(snapshot) {
  return Boolean(snapshot?.cells);
}

function asBoard(snapshot) {
  return { ...snapshot, silentSince: isSilent(snapshot) ? snapshot.time : null };
}

function countsOf(counts) {
  const ended = ENDED.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  const all = Object.values(counts).reduce((sum, one) => sum + one, 0);
  const success = counts.success ?? 0;
  const judged = success + (counts.failure ?? 0);
  return [
    ["Ended", count(ended), all > ended ? `of ${count(all)} (${percent(ended / all)})` : ""],
    ["Success", judged ? percent(success / judged) : "–", judged ? `${count(success)} of ${count(judged)}` : ""],
  ];
}

function endWords({ not_started: unresolved }) {
  return unresolved
    ? `This run has stopped: ${counted(unresolved, "rollout is", "rollouts are")} unresolved.` : "This run has ended.";
}

function rateWords(rate) {
  return rate === null ? "–" : `${number(rate)} / min`;
}

function watchedPace(snapshot, counts) {
  const { in_flight_limit: limit, rollouts_per_minute: rate, remaining_seconds: left } = snapshot;
  const pace = [
    ["Running", count(counts.running ?? 0), limit ? `of at most ${count(limit)}` : ""],
    ["Rate", rateWords(rate)],
    ["Time left", snapshot.finished ? "none" : seconds(left)],
    ["Elapsed", seconds(snapshot.elapsed)],
    ["Steps", count(snapshot.steps)],
    ["Retried", count(snapshot.retried), snapshot.timeouts ? counted(snapshot.timeouts, "timeout") : ""],
  ];
  if (snapshot.overdue) pace.push(["Overdue", h("span", { class: "warn", text: count(snapshot.overdue) })]);
  return pace;
}

function runningTable(live, root) {
  const head = (name, kind = "number") => h("th", { scope: "col", class: kind, text: name });
  const box = {
    class: "table-box", tabindex: "0", role: "region", "aria-label": "Running rollouts", data: { key: "box" },
  };
  return h("div", box,
    h("table", { class: "data running" },
      h("thead", {}, h("tr", {},
        head("Task"), head("Repeat"), head("Step"), head("Phase", ""), head("Phase time"), head("Total time"),
        head("About", ""))),
      h("tbody", {}, live.map((task) => runningRow(task, root)))));
}

function runningRow(task, root) {
  const cell = (text) => h("td", { class: "number", text });
  return h("tr", { class: task.overdue ? "is-overdue" : "" },
    h("td", { class: "number" }, link({
      href: address(`${root}rollouts`, { task: task.task }), data: { key: `${task.task} ${task.repeat}` },
    }, String(task.task))),
    cell(String(task.repeat)),
    cell(count(task.step ?? 0)),
    h("td", { text: words(task.phase) }),
    cell(seconds(task.phase_seconds ?? 0)),
    cell(seconds(task.seconds ?? 0)),
    h("td", {}, h("span", { class: "clip" },
      task.overdue ? h("strong", { class: "warn", text: "overdue " }) : null,
      task.attempt > 1 ? h("span", { class: "muted", text: `attempt ${task.attempt} ` }) : null,
      h("span", { class: "muted", text: task.label ?? "" }))));
}
