// How much a list has, in words: lines that are no record are not counted among the rollouts.

import { counted } from "./format.js";

// "29 rollouts, 1 unreadable line"
export function totalWords({ total, unreadable }) {
  const rollouts = total - unreadable;
  const words = [];
  if (rollouts || !unreadable) words.push(counted(rollouts, "rollout"));
  if (unreadable) words.push(counted(unreadable, "unreadable line"));
  return words.join(", ");
}

// "Export 29 rollouts as JSONL"; `answer` is null before it is known how many there are.
export function exportWords(answer) {
  return `Export ${answer ? counted(answer.total - answer.unreadable, "rollout") : "the rollouts"} as JSONL`;
}
