// A chip for each filter that is active: what it is, and a button that takes it back.

import { h } from "./dom.js";
import { CHOICES, isNumber, NAMES, RANGES, SINGLE, valueWords } from "./filter_params.js";
import { cut } from "./format.js";
import { causeName } from "./state.js";

// The chips of the parameters of a source. `change({name: value | [values] | null})` is called with
// what a button asks for.
export function chipsOf(params, source, change) {
  const all = active(params, source);
  const chips = all.map(([label, changes]) => chip(label, () => change(changes)));
  if (chips.length > 1) {
    const clear = () => change(Object.fromEntries(NAMES.map((name) => [name, null])));
    chips.push(h("button", { class: "quiet clear", on: { click: clear } }, "Clear all"));
  }
  return chips;
}

// Of each filter its words, and the changes that remove it.
function active(params, source) {
  const found = [];
  const add = (label, changes) => found.push([label, changes]);
  const q = params.get("q");
  if (q) add(`“${cut(q, 40)}”`, { q: null });
  const success = params.get("success");
  if (success) add(success === "true" ? "succeeded" : "did not succeed", { success: null });
  for (const [name, title] of Object.entries(CHOICES)) {
    const values = params.getAll(name);
    for (const value of values) {
      add(`${title.toLowerCase()}: ${cut(valueWords(name, value), 40)}`,
        { [name]: values.filter((one) => one !== value) });
    }
  }
  for (const [name, title] of Object.entries(SINGLE)) {
    const value = params.get(name);
    const said = value === null ? "" : singleWords(source, name, value);
    if (said) add(`${title.toLowerCase()}: ${cut(said, 60)}`, { [name]: null });
  }
  for (const [name, about] of Object.entries(RANGES)) {
    const label = rangeWords(about, params.get(`min_${name}`), params.get(`max_${name}`));
    if (label) add(label, { [`min_${name}`]: null, [`max_${name}`]: null });
  }
  return found;
}

function chip(label, remove) {
  return h("span", { class: "chip" },
    h("span", { text: label, title: label }),
    h("button", {
      class: "quiet", "aria-label": `Remove the filter ${label}`, on: { click: remove },
    }, "✕"));
}

function singleWords(source, name, value) {
  return name === "cause" ? causeName(source, value) ?? `number ${value}` : value;
}

function rangeWords({ title, format }, low, high) {
  if (low === null && high === null) return null;
  const show = (value) => (isNumber(value) ? format(Number(value)) : `“${cut(value, 20)}” (no number)`);
  const name = title.replace(" (s)", "").toLowerCase();
  if (low === null) return `${name} ≤ ${show(high)}`;
  if (high === null) return `${name} ≥ ${show(low)}`;
  return low === high ? `${name} = ${show(low)}` : `${name} ${show(low)} – ${show(high)}`;
}
