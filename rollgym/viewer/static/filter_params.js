// The filter parameters of the address, which all views and all requests share.

import { compact, count, momentWords, number, recordWords, seconds, words } from "./format.js";

// Parameters with a choice of values, ranges, and single values.
export const CHOICES = {
  status: "Status", kind: "Failure", sign: "Sign", tool: "Tool", agent: "Agent", domain: "Domain",
  model: "Model", ending: "Ending", version: "Policy version",
};
export const RANGES = {
  reward: { title: "Reward", format: number },
  steps: { title: "Steps", format: count },
  tool_calls: { title: "Tool calls", format: count },
  tokens: { title: "Tokens", format: compact },
  input_tokens: { title: "Input tokens", format: compact },
  output_tokens: { title: "Output tokens", format: compact },
  seconds: { title: "Duration (s)", format: seconds },
  difficulty: { title: "Difficulty", format: number },
  started: { title: "Started", format: momentWords },
  record: { title: "Record", format: recordWords },
};
export const SINGLE = { task: "Task", repeat: "Repeat", cause: "Cause" };
const IN_WORDS = new Set(["status", "kind", "sign", "ending"]); // the others are names and shown unchanged

export const NAMES = [
  "q", "success", ...Object.keys(CHOICES), ...Object.keys(SINGLE),
  ...Object.keys(RANGES).flatMap((name) => [`min_${name}`, `max_${name}`]),
];

// The filter parameters of an address.
export function filterOf(params) {
  const filter = new URLSearchParams();
  for (const name of NAMES) for (const value of params.getAll(name)) filter.append(name, value);
  return filter;
}

// A copy of the parameters with changes: `{name: value | [values] | null}`.
export function changed(params, changes) {
  const result = new URLSearchParams(params);
  for (const [name, value] of Object.entries(changes)) {
    result.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") result.append(name, one);
    }
  }
  return result;
}

// The names of parameters with invalid values, such as a reward that is not a number.
export function invalidNames(params) {
  const ranges = Object.keys(RANGES).flatMap((name) => [`min_${name}`, `max_${name}`]);
  const isWrong = {
    success: (value) => !["true", "false"].includes(value),
    ...Object.fromEntries(ranges.map((name) => [name, (value) => !isNumber(value)])),
    ...Object.fromEntries(Object.keys(SINGLE).map((name) => [name, (value) => !/^\d+$/.test(value)])),
  };
  return Object.keys(isWrong).filter((name) => params.getAll(name).some((value) => value && isWrong[name](value)));
}

export function isNumber(text) {
  return text.trim() !== "" && Number.isFinite(Number(text));
}

export function isFiltered(params) {
  return [...filterOf(params)].length > 0;
}

// The label of a value.
export function valueWords(name, value) {
  return IN_WORDS.has(name) ? words(value) : value;
}
