// The outcome of a rollout: a sign, a word and a colour that always go together.

import { h } from "./dom.js";
import { number, words } from "./format.js";

const OUTCOMES = {
  __proto__: null,
  success: { sign: "✓", word: "success", tone: "good" },
  partial: { sign: "~", word: "no success", tone: "warn" },
  none: { sign: "✕", word: "no success", tone: "bad" },
  blocked: { sign: "#", word: "blocked", tone: "warn" },
  completed: { sign: "●", word: "completed", tone: "info" },
  failed: { sign: "!", word: "failed", tone: "failed" },
  retried: { sign: "↻", word: "retried", tone: "warn" },
  omitted: { sign: "–", word: "omitted", tone: "muted" },
  input: { sign: "·", word: "not run", tone: "muted" },
  unreadable: { sign: "?", word: "unreadable", tone: "bad" },
};

// Whether a page blocked the rollout, which was then not judged. Cells have `blocked`, entries of the list
// have it among their fields.
export function isBlocked({ status, success, blocked, fields }) {
  return status === "completed" && typeof success !== "boolean" && Boolean(blocked ?? fields?.is_blocked);
}

// {sign, word, tone} of an entry.
function outcomeOf(entry) {
  const { status, success, reward } = entry;
  if (status !== "completed") return OUTCOMES[status] ?? { sign: "·", word: status, tone: "muted" };
  if (success === null || success === undefined) return OUTCOMES[isBlocked(entry) ? "blocked" : "completed"];
  if (success) return OUTCOMES.success;
  return reward > 0 ? OUTCOMES.partial : OUTCOMES.none;
}

// The outcome in a list: the sign, and the kind of a failure.
export function outcome(entry) {
  const { sign, word, tone } = outcomeOf(entry);
  const said = entry.kind ? words(entry.kind) : word;
  return h("span", { class: `outcome ${tone}` },
    h("span", { class: "sign", "aria-hidden": "true", text: sign }),
    h("span", { class: "clip", text: said, title: said }));
}

// A repeat in one line: its number and its outcome.
export function repeatWords({ repeat, ...entry }) {
  const reward = hasReward(entry) ? `, reward ${number(entry.reward)}` : "";
  return `${repeat === null ? "" : `Repeat ${repeat}: `}${outcomeOf(entry).word}${reward}`;
}

// The properties and the content of the small square of a repeat.
export function repeatCell(entry) {
  const { sign, tone } = outcomeOf(entry);
  const about = repeatWords(entry);
  return [{ class: `repeat-cell ${tone}`, data: { tip: about }, "aria-label": about }, sign];
}

// The sign, the reward and the word of an outcome.
export function badge(entry) {
  const { sign, word, tone } = outcomeOf(entry);
  return h("span", { class: `badge ${tone}` },
    h("span", { class: "badge-mark", "aria-hidden": "true" }, sign),
    hasReward(entry) ? h("b", { title: "Reward" }, number(entry.reward)) : null,
    word);
}

function hasReward({ reward }) {
  return reward !== null && reward !== undefined;
}
