// A web rollout step by step: the screenshot with the action drawn on it, the prompt and the response of
// the model, and the result.

import { get } from "./api.js";
import { button, copyButton } from "./buttons.js";
import { fill, h, refill } from "./dom.js";
import { Filmstrip } from "./filmstrip.js";
import { count, counted, number, seconds, words } from "./format.js";
import { overlay } from "./overlay.js";
import { Portions } from "./pages.js";
import { enlarge, picture } from "./pictures.js";
import { fold, rawJson, TextBlock } from "./text.js";
import { TurnNode } from "./turn.js";

const PORTION = 20;
const EXCERPT = 2_000;
const BEFORE = "Before the action";
const AFTER = "After the action";
export const MODES = [["before", "Before"], ["after", "After"], ["both", "Side by side"]];

export class Steps {
  // `selected(index, mode)` is called with the step that is shown; `address(index, mode)` returns its
  // link. A mode is "before", "after" or "both".
  constructor({ place, total, selected, address }) {
    this.place = place;
    this.total = total;
    this.selectedStep = selected;
    this.address = address;
    this.index = 0;
    this.mode = "before";
    this.open = new Set(); // the folds that stay open from step to step
    this.steps = new Portions({
      total,
      size: PORTION,
      load: async (from, size) => (await get(place.paths.steps(place.id), { from, count: size })).steps,
    });
    this.film = new Filmstrip({
      total,
      place,
      get: (index) => this.steps.get(index),
      select: (index) => this.show(index),
    });
    this.stage = h("div", { class: "stage" });
    this.facts = h("div", { class: "step-facts" });
    this.bar = h("div", { class: "step-bar" });
    this.present = h("div", { class: "step" }, this.stage, this.facts);
    this.node = h("section", { class: "steps", "aria-label": "Steps" }, this.film.node, this.bar, this.present);
  }

  // Shows a step. The present one stays until the new one is loaded. `quietly`: without calling `selected`.
  async show(index, { quietly = false, mode = this.mode } = {}) {
    const wanted = Math.min(Math.max(index, 0), this.total - 1);
    this.index = wanted;
    this.mode = mode;
    this.film.show(wanted);
    this.#drawBar();
    if (!quietly) this.selectedStep(wanted, mode);
    try {
      const step = await this.steps.get(wanted);
      const next = wanted + 1 < this.total ? await this.steps.get(wanted + 1) : null;
      if (this.index === wanted) this.#draw(step, next);
    } catch (error) {
      if (this.index === wanted) fill(this.stage, h("p", { class: "problem", role: "alert" }, error.message));
    }
  }

  move(by) {
    if (this.#isStep(this.index + by)) this.show(this.index + by);
  }

  // Switches between the screenshots before and after the action.
  toggleAfter() {
    this.#setMode(this.mode === "after" ? "before" : "after");
  }

  toggleRaw() {
    const raw = this.facts.querySelector("details.step-raw");
    if (raw) raw.open = !raw.open;
  }

  destroy() {
    this.film.destroy();
  }

  #isStep(index) {
    return index >= 0 && index < this.total;
  }

  #setMode(mode) {
    this.show(this.index, { mode });
  }

  #drawBar() {
    const go = (by, label, sign) => button(sign, () => this.move(by), {
      "aria-label": label, data: { tip: label, key: label },
      // Not `disabled`, which would lose the focus at the last step.
      "aria-disabled": this.#isStep(this.index + by) ? null : "true",
    });
    refill(this.bar,
      h("div", { class: "step-walk" }, go(-1, "Previous step (←)", "‹"), go(1, "Next step (→)", "›"),
        h("h2", {}, `Step ${this.index + 1} `, h("span", { class: "muted" }, `of ${count(this.total)}`))),
      h("div", { class: "segmented", role: "group", "aria-label": "Which screenshot" },
        MODES.map(([mode, name]) => button(name, () => this.#setMode(mode), {
          "aria-pressed": String(this.mode === mode), data: { key: mode },
        }))),
      copyButton(() => this.address(this.index, this.mode), { words: "Link", title: "Copy a link to this step" }));
  }

  #draw(step, next) {
    const before = this.mode === "after" ? null : this.#picture(step, BEFORE, step.marks ?? []);
    const after = this.mode === "before" ? null : this.#after(next);
    this.stage.className = `stage${this.mode === "both" ? " is-both" : ""}`;
    refill(this.stage, before, after);
    refill(this.facts, this.#facts(step));
  }

  #after(next) {
    if (next) return this.#picture(next, AFTER, []);
    return h("p", { class: "stage-none" }, "There is no screenshot after the last step.");
  }

  #picture(step, caption, marks) {
    const { screenshot } = step;
    if (!screenshot) return h("p", { class: "stage-none" }, "This step has no screenshot.");
    const alt = `${caption}: ${step.title || step.url || `step ${step.index + 1}`}`;
    const image = picture(screenshot, this.place, { alt, lazy: false });
    if (image.tagName !== "IMG") return image;
    const layers = overlay(marks, screenshot);
    return h("figure", { class: "shot" },
      button([image, layers], () => enlarge(screenshot, this.place, alt), {
        class: "shot-picture", title: "Show larger", data: { key: caption },
      }),
      h("figcaption", {},
        h("span", { class: "shot-when" }, caption),
        step.judged && caption === BEFORE ? h("span", { class: "tag" }, "judged") : null,
        h("span", { class: "shot-title" }, step.title ?? ""),
        h("span", { class: "shot-url" }, step.url ?? "")));
  }

  #facts(step) {
    return [
      this.#action(step),
      this.#fields(step),
      this.#figures(step),
      this.#prompt(step.prompt ?? []),
      this.#textFold("response", "Raw response", step.response),
      this.#textFold("tree", "Accessibility tree", step.tree),
      this.#fold("raw", "Raw JSON", "", () => rawJson(this.place, step.path)),
    ];
  }

  #prompt(turns) {
    if (!turns.length) return null;
    const content = () => turns.map((turn) => new TurnNode(turn, { place: this.place, excerpt: EXCERPT }).node);
    return this.#fold("prompt", "Prompt", counted(turns.length, "turn"), content);
  }

  #textFold(name, title, text) {
    return text ? this.#fold(name, title, counted(text.size, "character"), () => this.#text(text, "plain")) : null;
  }

  #action(step) {
    const args = step.arguments && step.arguments.text !== "{}" ? this.#text(step.arguments, "json") : null;
    return h("div", { class: "step-action" },
      actionLine(step),
      step.problem ? note("bad", "Problem", step.problem) : null,
      step.parse_failure ? note("bad", "Response not parsed", step.parse_failure) : null,
      step.unplaced ? note("warn", "Not drawn", step.unplaced) : null,
      step.judged ? note("info", "Judge", step.judgment || "The judge saw this screenshot.") : null,
      step.same_as_next === true ? note("warn", "No change", "The next screenshot is the same.") : null,
      (step.notes ?? []).map((text) => note("muted", "Note", text)),
      args);
  }

  #fields(step) {
    // Values that repeat the action are left out.
    const isTelling = ([, text]) => text.size > 0 && text.text !== step.action;
    const fields = Object.entries(step.fields ?? {}).filter(isTelling);
    if (!fields.length) return null;
    return h("dl", { class: "fields" }, fields.map(([name, text]) =>
      h("div", {}, h("dt", {}, words(name)), h("dd", {}, this.#text(text, "markdown")))));
  }

  #figures(step) {
    const timings = Object.entries(step.timings ?? {}).map(([name, took]) => [words(name), seconds(took)]);
    const tokens = step.input_tokens === undefined && step.output_tokens === undefined ? []
      : [["input tokens", count(step.input_tokens)], ["output tokens", count(step.output_tokens)]];
    const reward = step.reward === undefined || step.reward === null ? [] : [["reward", number(step.reward)]];
    const version = step.version ? [["policy version", step.version]] : [];
    const figures = [...reward, ...timings, ...tokens, ...version];
    return figures.length ? h("dl", { class: "figures" }, figures.map(([name, value]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, value)))) : null;
  }

  #text(text, format) {
    return new TextBlock(text, { place: this.place, format, excerpt: EXCERPT }).node;
  }

  #fold(name, title, about, content) {
    const summary = [h("span", { class: "fold-name" }, title), h("span", { class: "fold-about" }, about)];
    const details = fold({ class: `fold step-${name}` }, summary, content, { open: this.open.has(name) });
    details.firstChild.dataset.key = name;
    details.addEventListener("toggle", () => (details.open ? this.open.add(name) : this.open.delete(name)));
    return details;
  }
}

// The action in one line.
export function actionLine(step) {
  return h("p", { class: "step-did" }, step.action_key ? h("span", { class: "tag" }, step.action_key) : null,
    h("span", { class: "step-words" }, step.action || "no action"));
}

function note(tone, title, text) {
  return h("p", { class: `step-note ${tone}` }, h("b", {}, `${title}: `), h("span", {}, text));
}
