// The timeline of a rollout: a lane for each phase with a bar for each span; or, if only totals are known,
// one bar of them.

import { h, svg } from "./dom.js";
import { counted, percent, seconds, words } from "./format.js";
import { oneStop } from "./keyboard.js";

const SPACE = 1_000;
const NARROWEST = 1.5;
const QUARTERS = [0, 0.25, 0.5, 0.75, 1];

// The colour group of a phase. Other phases have the group "other".
const GROUPS = {
  __proto__: null,
  model: "model", judge: "judge", reward: "judge", verify: "judge", verifier: "judge",
  tool: "tools", tools: "tools", navigate: "browser", screenshot: "browser", execute: "browser",
  browser: "browser", open: "browser", observe: "browser", seed: "other",
};

// The element of a timeline; null if there is nothing to show. `jump(index)` goes to the step or turn
// (`noun`) of a bar.
export function timeline(view, { jump, noun }) {
  if (!view) return null;
  const totals = totalsOf(view);
  if (!totals.length) return null;
  const body = view.exact && view.spans?.length ? lanes(view, totals, { jump, noun }) : sums(view, totals);
  return h("section", { class: "timeline", "aria-label": "Timeline" },
    h("h2", {}, "Time ", h("span", { class: "muted" }, short(view.seconds))), body, leftOut(view));
}

// A record with very many calls only has the first spans; its totals are complete.
function leftOut({ complete, exact, spans }) {
  const shown = spans?.length;
  if (complete !== false || !exact || !shown) return null;
  const calls = shown === 1 ? "The first call" : `The first ${counted(shown, "call")}`;
  return h("p", { class: "muted timeline-words" }, `${calls}; the times of later calls were not recorded.`);
}

function totalsOf(view) {
  const totals = new Map(Object.entries(view.totals ?? {}));
  if (!totals.size) {
    for (const span of view.spans ?? []) {
      totals.set(span.phase, (totals.get(span.phase) ?? 0) + span.seconds);
    }
  }
  return [...totals].filter(([, took]) => took > 0);
}

function groupOf(phase) {
  return GROUPS[phase] ?? GROUPS[phase.split(/[_.: ]/)[0]] ?? "other";
}

function sums(view, totals) {
  const known = totals.reduce((sum, [, took]) => sum + took, 0);
  const whole = Math.max(view.seconds, known) || 1;
  const rest = whole - known;
  const parts = rest > whole * 0.005 ? [...totals, ["other", rest]] : totals;
  let at = 0;
  const bars = parts.map(([phase, took]) => {
    const width = (took / whole) * SPACE;
    const place = { x: at, y: 0, width: Math.max(width - 1, 0.5), height: 14 };
    at += width;
    return svg("rect", { class: phaseClass(phase), ...place }, svg("title", {}, `${words(phase)}: ${short(took)}`));
  });
  return [
    h("p", { class: "muted timeline-words" }, "Only the total of each phase is known."),
    svg("svg", { class: "timeline-sums", ...stretched(14), "aria-hidden": "true" }, bars),
    h("ul", { class: "phase-legend" }, parts.map(([phase, took]) => h("li", {}, swatch(phase), words(phase),
      h("b", {}, short(took)), h("span", { class: "muted" }, percent(took / whole))))),
  ];
}

function swatch(phase) {
  return h("span", { class: `phase-swatch ${phaseClass(phase)}`, "aria-hidden": "true" });
}

function phaseClass(phase) {
  return `phase-${groupOf(phase)}`;
}

// A drawing that stretches to the width of its box.
function stretched(height) {
  return { viewBox: `0 0 ${SPACE} ${height}`, preserveAspectRatio: "none" };
}

function lanes(view, totals, target) {
  const latest = view.spans.reduce((until, span) => Math.max(until, span.start + span.seconds), view.seconds);
  const end = latest || 1;
  const byPhase = Map.groupBy(view.spans, ({ phase }) => phase);
  const rows = [...byPhase].map(([phase, spans]) => {
    const took = new Map(totals).get(phase) ?? 0;
    const bars = svg("svg", { class: "lane-bars", ...stretched(16), role: "group", "aria-label": words(phase) },
      svg("line", { class: "lane-line", x1: 0, x2: SPACE, y1: 8, y2: 8 }),
      merged(spans, end).map((span) => bar(span, end, target)));
    oneStop(bars, ".is-link");
    return h("div", { class: "lane" },
      h("span", { class: "lane-name" }, swatch(phase), words(phase)), bars,
      h("span", { class: "lane-total" }, short(took)));
  });
  return h("div", { class: "lanes" }, rows, axis(end));
}

// Overlapping bars are merged: a rollout may have tens of thousands.
function merged(spans, end) {
  const apart = (end / SPACE) * NARROWEST;
  const result = [];
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    const last = result.at(-1);
    const crowded = last && spans.length > 200 && span.start < last.start + Math.max(last.seconds, apart);
    if (crowded) {
      last.seconds = Math.max(last.seconds, span.start + span.seconds - last.start);
      last.spans += 1;
    } else {
      result.push({ ...span, spans: 1 });
    }
  }
  return result;
}

function bar(span, end, { jump, noun }) {
  const hasStep = span.step !== undefined && span.step !== null;
  const several = span.spans > 1 ? `${span.spans} times` : span.label;
  const about = [
    words(span.phase), several, hasStep ? `${noun} ${span.step + 1}` : "",
    `${short(span.seconds)}, starting at ${short(span.start)}`,
  ].filter(Boolean).join(" · ");
  const go = () => hasStep && jump(span.step);
  const pressed = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    go();
  };
  return svg("rect", {
    class: `lane-bar ${phaseClass(span.phase)}${hasStep ? " is-link" : ""}`,
    x: (span.start / end) * SPACE,
    y: 2,
    width: Math.max((span.seconds / end) * SPACE, NARROWEST),
    height: 12,
    role: hasStep ? "button" : "img",
    "aria-label": about,
    data: { tip: about },
    on: { click: go, keydown: pressed },
  });
}

// Phases may be far shorter than a millisecond.
function short(took) {
  return took > 0 && took < 0.01 ? `${Number((took * 1000).toPrecision(2))} ms` : seconds(took);
}

function axis(end) {
  return h("div", { class: "lane lane-axis", "aria-hidden": "true" }, h("span", {}),
    h("span", { class: "axis-marks" }, QUARTERS.map((share) => h("span", {}, short(end * share)))),
    h("span", {}));
}
