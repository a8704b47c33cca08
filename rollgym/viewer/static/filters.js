// What is filtered: the parameters of the address that all views and questions share, the bar of
// controls that changes them, and a chip for each that is active.

import { get, source as pathsOf } from "./api.js";
import { fill, h } from "./dom.js";
import { compact, count, cut, momentWords, number, percent, recordWords, seconds, words } from "./format.js";
import { menu } from "./menu.js";
import { causeName } from "./state.js";

const CHOICES = {
  status: "Status", kind: "Failure", tool: "Tool", agent: "Agent", domain: "Domain",
  model: "Model", ending: "Ending",
};
const RANGES = {
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
const SINGLE = { task: "Task", repeat: "Repeat", cause: "Cause" };
const IN_WORDS = new Set(["status", "kind", "ending"]); // the others are names, shown as they are
const TYPING_PAUSE = 300;
const FEW = 10;

const NAMES = [
  "q", "success", ...Object.keys(CHOICES), ...Object.keys(SINGLE),
  ...Object.keys(RANGES).flatMap((name) => [`min_${name}`, `max_${name}`]),
];

// Of an address's parameters those that filter.
export function filterOf(params) {
  const filter = new URLSearchParams();
  for (const name of NAMES) for (const value of params.getAll(name)) filter.append(name, value);
  return filter;
}

// Other parameters with some set anew: `{name: value | [values] | null}`.
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

export function isFiltered(params) {
  return [...filterOf(params)].length > 0;
}

// The bar. `onChange(params, {replace})` gets the new parameters, and whether they only go on with
// what was typed before; `update(params, search)` draws others, with how far a search of the text
// has come.
export class FilterBar {
  constructor({ source, params, onChange, extra = [] }) {
    this.source = source;
    this.params = params;
    this.onChange = onChange;
    this.facets = null;
    this.typing = null; // the timer of what was typed and is not asked for yet
    this.search = h("input", {
      type: "search", class: "search", placeholder: "Search the text of rollouts", value: params.get("q"),
      "aria-label": "Search the text of rollouts", autocomplete: "off", spellcheck: "false",
      on: { input: () => this.#typed(), keydown: (event) => this.#key(event) },
    });
    this.progress = h("span", { class: "search-progress", role: "status" });
    this.buttons = h("div", { class: "filter-buttons" }, this.#menus());
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Active filters" });
    this.node = h("div", { class: "filters" },
      h("div", { class: "filter-bar" },
        h("div", { class: "search-box" }, this.search, this.progress),
        this.buttons, h("div", { class: "filter-extra" }, extra)),
      this.chips);
    this.update(params, null);
  }

  update(params, search) {
    this.params = params;
    const used = document.activeElement === this.search || this.typing !== null;
    if (!used) this.search.value = params.get("q") ?? "";
    this.#drawProgress(params.get("q") ? search : null);
    this.#drawChips();
    for (const button of this.buttons.querySelectorAll("[data-filters]")) {
      const active = button.dataset.filters.split(" ").some((name) => this.params.has(name));
      button.classList.toggle("is-active", active);
    }
  }

  focus() {
    this.search.focus();
    this.search.select();
  }

  // What was typed last is not asked for any more.
  destroy() {
    clearTimeout(this.typing);
  }

  #change(changes, { replace = false } = {}) {
    this.onChange(changed(this.params, changes), { replace });
  }

  #typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.#ask(), TYPING_PAUSE);
  }

  // Typing on replaces what was typed before; any other filter can be taken back.
  #ask() {
    clearTimeout(this.typing);
    this.typing = null;
    const q = this.search.value.trim() || null;
    const before = this.params.get("q");
    if (q !== before) this.#change({ q }, { replace: Boolean(q && before) });
  }

  #key(event) {
    if (event.key === "Enter") {
      this.#ask();
    } else if (event.key === "Escape") {
      // Browsers would empty the field; one only wants to leave it.
      event.preventDefault();
      this.search.blur();
    }
  }

  // Whoever removes one filter after another with the keyboard stays among them.
  #drawChips() {
    const buttons = () => [...this.chips.querySelectorAll("button")];
    const at = buttons().indexOf(document.activeElement);
    fill(this.chips, this.#chips());
    this.chips.hidden = !this.chips.childNodes.length;
    if (at >= 0) (buttons()[Math.min(at, buttons().length - 1)] ?? this.search).focus({ preventScroll: true });
  }

  #drawProgress(search) {
    if (!search || search.done) {
      fill(this.progress);
      return;
    }
    const share = search.size ? search.read / search.size : 0;
    fill(this.progress,
      h("progress", { max: "1", value: share, "aria-label": "How much has been searched" }),
      `${percent(Math.floor(share * 100) / 100)}, ${count(search.matches)} found`);
  }

  #menus() {
    const choice = (name) => menu({
      label: CHOICES[name], filters: [name], content: () => this.#choices([name]),
    });
    const range = (name) => menu({
      label: RANGES[name].title, filters: [`min_${name}`, `max_${name}`],
      content: () => this.#range(name),
    });
    const more = ["agent", "domain", "model", "ending"];
    const ranges = ["difficulty", "tool_calls", "tokens", "seconds"];
    return [
      choice("status"),
      menu({ label: "Success", filters: ["success"], content: () => this.#success() }),
      range("reward"),
      choice("kind"),
      choice("tool"),
      range("steps"),
      menu({
        label: "More",
        filters: [
          ...more, "task", "repeat", ...ranges.flatMap((name) => [`min_${name}`, `max_${name}`]),
        ],
        content: () => h("div", { class: "menu-sections" },
          h("div", { class: "menu-singles" }, this.#single("task"), this.#single("repeat")),
          ranges.map((name) => this.#range(name)),
          this.#choices(more)),
      }),
    ];
  }

  #success() {
    const present = this.params.get("success") ?? "";
    return h("fieldset", { class: "options" },
      h("legend", { text: "Success" }),
      [["", "Any"], ["true", "Succeeded"], ["false", "Did not succeed"]].map(([value, label]) =>
        h("label", { class: "option" },
          h("input", {
            type: "radio", name: "success", value, checked: value === present,
            on: { change: () => this.#change({ success: value || null }) },
          }),
          h("span", { text: label }))));
  }

  #range(name) {
    const { title } = RANGES[name];
    const field = (end, label) => h("label", {},
      h("span", { text: label }),
      h("input", {
        type: "number", step: "any", inputmode: "decimal", value: this.params.get(`${end}_${name}`) ?? "",
        "aria-label": `${title}, ${label}`,
        on: { change: (event) => this.#change({ [`${end}_${name}`]: event.target.value }) },
      }));
    return h("fieldset", { class: "range" },
      h("legend", { text: title }), field("min", "from"), field("max", "to"));
  }

  #single(name) {
    return h("label", {},
      h("span", { text: SINGLE[name] }),
      h("input", {
        type: "number", min: "0", step: "1", value: this.params.get(name) ?? "",
        on: { change: (event) => this.#change({ [name]: event.target.value }) },
      }));
  }

  // Checkboxes for the values that there are.
  #choices(names) {
    const box = h("div", { class: "facets" }, h("p", { class: "muted", text: "Loading…" }));
    this.#loadFacets().then((facets) => {
      const shown = names.filter((name) => facets[name]?.length);
      fill(box, shown.length
        ? shown.map((name) => this.#facet(name, facets[name]))
        : h("p", { class: "muted", text: `No rollout says its ${words(names[0])}.` }));
    }, (error) => fill(box, h("p", { class: "bad", role: "alert", text: error.message })));
    return box;
  }

  #loadFacets() {
    // Asked for anew at most every few seconds, since a run may be growing.
    if (!this.facets || Date.now() - this.facetsTime > 5000) {
      this.facets = get(pathsOf(this.source).facets);
      this.facetsTime = Date.now();
      this.facets.catch(() => { this.facets = null; });
    }
    return this.facets;
  }

  #facet(name, values) {
    const chosen = new Set(this.params.getAll(name));
    const options = values.map(({ value, count: many }) => {
      const text = String(value);
      return h("label", { class: "option", data: { text: text.toLowerCase() } },
        h("input", {
          type: "checkbox", value: text, checked: chosen.has(text),
          on: { change: (event) => this.#toggle(name, text, event.target.checked) },
        }),
        h("span", { text: shown(name, text), title: text }),
        h("span", { class: "muted", text: count(many) }));
    });
    const narrow = (event) => {
      const text = event.target.value.toLowerCase();
      for (const option of options) option.hidden = !option.dataset.text.includes(text);
    };
    return h("fieldset", { class: "options" },
      h("legend", { text: CHOICES[name] }),
      values.length > FEW
        ? h("input", {
          type: "search", placeholder: "Narrow down", "aria-label": `Narrow down ${CHOICES[name]}`,
          on: { input: narrow },
        })
        : null,
      options);
  }

  #toggle(name, value, on) {
    const values = this.params.getAll(name).filter((one) => one !== value);
    this.#change({ [name]: on ? [...values, value] : values });
  }

  #chips() {
    const chips = [];
    const add = (label, changes) => chips.push(this.#chip(label, changes));
    const q = this.params.get("q");
    if (q) add(`“${cut(q, 40)}”`, { q: null });
    const success = this.params.get("success");
    if (success) add(success === "true" ? "succeeded" : "did not succeed", { success: null });
    for (const [name, title] of Object.entries(CHOICES)) {
      const values = this.params.getAll(name);
      for (const value of values) {
        add(`${title.toLowerCase()}: ${cut(shown(name, value), 40)}`,
          { [name]: values.filter((one) => one !== value) });
      }
    }
    for (const [name, title] of Object.entries(SINGLE)) {
      const value = this.params.get(name);
      const said = value === null ? "" : this.#singleWords(name, value);
      if (said) add(`${title.toLowerCase()}: ${cut(said, 60)}`, { [name]: null });
    }
    for (const [name, about] of Object.entries(RANGES)) {
      const label = rangeWords(about, this.params.get(`min_${name}`), this.params.get(`max_${name}`));
      if (label) add(label, { [`min_${name}`]: null, [`max_${name}`]: null });
    }
    if (chips.length > 1) {
      const cleared = Object.fromEntries(NAMES.map((name) => [name, null]));
      const clear = () => this.#change(cleared);
      chips.push(h("button", { class: "quiet clear", on: { click: clear } }, "Clear all"));
    }
    return chips;
  }

  #singleWords(name, value) {
    return name === "cause" ? causeName(this.source, value) ?? `number ${value}` : value;
  }

  #chip(label, changes) {
    return h("span", { class: "chip" },
      h("span", { text: label, title: label }),
      h("button", {
        class: "quiet", "aria-label": `Remove the filter ${label}`,
        on: { click: () => this.#change(changes) },
      }, "✕"));
  }
}

function shown(name, value) {
  return IN_WORDS.has(name) ? words(value) : value;
}

function rangeWords({ title, format }, low, high) {
  if (low === null && high === null) return null;
  const show = (value) => format(Number(value));
  const name = title.replace(" (s)", "").toLowerCase();
  if (low === null) return `${name} ≤ ${show(high)}`;
  if (high === null) return `${name} ≥ ${show(low)}`;
  return low === high ? `${name} = ${show(low)}` : `${name} ${show(low)} – ${show(high)}`;
}
