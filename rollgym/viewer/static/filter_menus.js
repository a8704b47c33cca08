// The menus of the filter bar: choices of existing values, ranges, and numbers.

import { get, source as pathsOf } from "./api.js";
import { fill, h } from "./dom.js";
import { CHOICES, RANGES, SINGLE, valueWords } from "./filter_params.js";
import { count, words } from "./format.js";
import { menu } from "./menu.js";

const FEW = 10;
const FACETS_FOR = 5_000; // ms: a live run gets new values
const MORE_CHOICES = ["version", "agent", "domain", "model", "ending"];
const MORE_RANGES = ["difficulty", "tool_calls", "tokens", "seconds"];

export class FilterMenus {
  // `params()` returns the present parameters, `change({name: value})` sets others. `nodes` are the
  // buttons; `data-filters` of each has the names of the parameters that it changes.
  constructor({ source, params, change }) {
    this.source = source;
    this.params = params;
    this.change = change;
    this.facets = null;
    this.nodes = [
      this.#choiceMenu("status"),
      menu({ label: "Success", filters: ["success"], content: () => this.#success() }),
      this.#rangeMenu("reward"),
      this.#choiceMenu("kind"),
      this.#choiceMenu("sign"),
      this.#choiceMenu("tool"),
      this.#rangeMenu("steps"),
      this.#moreMenu(),
    ];
  }

  #choiceMenu(name) {
    return menu({ label: CHOICES[name], filters: [name], content: () => this.#choices([name]) });
  }

  #rangeMenu(name) {
    return menu({
      label: RANGES[name].title, filters: [`min_${name}`, `max_${name}`], content: () => this.#range(name),
    });
  }

  #moreMenu() {
    const ends = MORE_RANGES.flatMap((name) => [`min_${name}`, `max_${name}`]);
    return menu({
      label: "More",
      filters: [...MORE_CHOICES, "task", "repeat", ...ends],
      content: () => h("div", { class: "menu-sections" },
        h("div", { class: "menu-singles" }, this.#single("task"), this.#single("repeat")),
        MORE_RANGES.map((name) => this.#range(name)),
        this.#choices(MORE_CHOICES)),
    });
  }

  #success() {
    const present = this.params().get("success") ?? "";
    return h("fieldset", { class: "options" },
      h("legend", { text: "Success" }),
      [["", "Any"], ["true", "Success"], ["false", "No success"]].map(([value, label]) =>
        h("label", { class: "option" },
          h("input", {
            type: "radio", name: "success", value, checked: value === present,
            on: { change: () => this.change({ success: value || null }) },
          }),
          h("span", { text: label }))));
  }

  #range(name) {
    const { title } = RANGES[name];
    const field = (end, label) => h("label", {},
      h("span", { text: label }),
      h("input", {
        type: "number", step: "any", inputmode: "decimal", value: this.params().get(`${end}_${name}`) ?? "",
        "aria-label": `${title}, ${label}`,
        on: { change: (event) => this.change({ [`${end}_${name}`]: event.target.value }) },
      }));
    return h("fieldset", { class: "range" },
      h("legend", { text: title }), field("min", "from"), field("max", "to"));
  }

  #single(name) {
    return h("label", {},
      h("span", { text: SINGLE[name] }),
      h("input", {
        type: "number", min: "0", step: "1", value: this.params().get(name) ?? "",
        on: { change: (event) => this.change({ [name]: event.target.value }) },
      }));
  }

  // Checkboxes for the existing values.
  #choices(names) {
    const box = h("div", { class: "facets" }, h("p", { class: "muted", text: "Loading…" }));
    this.#loadFacets().then((facets) => {
      const shown = names.filter((name) => facets[name]?.length);
      fill(box, shown.length
        ? shown.map((name) => this.#facet(name, facets[name]))
        : h("p", { class: "muted", text: `No rollout has a ${words(names[0])}.` }));
    }, (error) => fill(box, h("p", { class: "bad", role: "alert", text: error.message })));
    return box;
  }

  #loadFacets() {
    if (!this.facets || Date.now() - this.facetsTime > FACETS_FOR) {
      this.facets = get(pathsOf(this.source).facets);
      this.facetsTime = Date.now();
      this.facets.catch(() => { this.facets = null; });
    }
    return this.facets;
  }

  #facet(name, values) {
    const chosen = new Set(this.params().getAll(name));
    const options = values.map(({ value, count: many }) => {
      const text = String(value);
      return h("label", { class: "option", data: { text: text.toLowerCase() } },
        h("input", {
          type: "checkbox", value: text, checked: chosen.has(text),
          on: { change: (event) => this.#toggle(name, text, event.target.checked) },
        }),
        h("span", { text: valueWords(name, text), title: text }),
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
          type: "search", placeholder: "Filter values", "aria-label": `Filter the values of ${CHOICES[name]}`,
          on: { input: narrow },
        })
        : null,
      options);
  }

  #toggle(name, value, on) {
    const values = this.params().getAll(name).filter((one) => one !== value);
    this.change({ [name]: on ? [...values, value] : values });
  }
}
