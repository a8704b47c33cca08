// How a rollout ended, as a word, a mark and a colour that always go together.

import { h } from "./dom.js";
import { number } from "./format.js";

const MARKS = {
  __proto__: null,
  success: "✓", "no-success": "✕", partial: "~", failed: "!", omitted: "–", retried: "↻",
  completed: "·", input: "·", unreadable: "?",
};
const WORDS = { __proto__: null, partial: "no success", "no-success": "no success", input: "not run" };

// The name of an outcome. What was never judged by success is judged by its reward.
export function outcomeOf({ status, success, reward }) {
  if (status !== "completed") return status;
  const judged = success ?? (reward === null || reward === undefined ? null : reward > 0);
  if (judged === null) return "completed";
  if (judged) return "success";
  return reward > 0 ? "partial" : "no-success";
}

export function markOf(entry) {
  return MARKS[outcomeOf(entry)] ?? "?";
}

function wordsOf(entry) {
  const outcome = outcomeOf(entry);
  return WORDS[outcome] ?? outcome;
}

// A repeat in a line: its number and what it came to.
export function repeatWords(entry) {
  const hasReward = entry.reward !== null && entry.reward !== undefined;
  return `Repeat ${entry.repeat}: ${wordsOf(entry)}${hasReward ? `, reward ${number(entry.reward)}` : ""}`;
}

// Its mark, its reward and its word.
export function badge(entry) {
  const hasReward = entry.reward !== null && entry.reward !== undefined;
  return h("span", { class: `badge is-${outcomeOf(entry)}` },
    h("span", { class: "badge-mark", "aria-hidden": "true" }, markOf(entry)),
    hasReward ? h("b", { title: "Reward" }, number(entry.reward)) : null,
    wordsOf(entry));
}
