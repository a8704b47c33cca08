// How much a list has, in words: lines that are no record are not counted among the rollouts.

import { isFiltered } from "./filter_params.js";
import { counted } from "./format.js";
import { sourceOf } from "./state.js";

// "29 rollouts, 1 unreadable line"
export function totalWords(total, params, source) {
  const unreadable = Math.min(total, unreadableAmong(total, params, source));
  const rollouts = total - unreadable;
  const words = [];
  if (rollouts || !unreadable) words.push(counted(rollouts, "rollout"));
  if (unreadable) words.push(counted(unreadable, "unreadable line"));
  return words.join(", ");
}

// They have nothing that filters could find them by, but for their text: those are counted with the rest.
function unreadableAmong(total, params, source) {
  if (params.getAll("status").join() === "unreadable") return total;
  return isFiltered(params) ? 0 : sourceOf(source)?.coverage.unreadable ?? 0;
}
