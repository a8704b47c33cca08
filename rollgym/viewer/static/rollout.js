// The page of one rollout: outcome, failure, verdict, timeline, and all turns or steps.

import { get, source as pathsOf, withQuery } from "./api.js";
import { button, copyButton } from "./buttons.js";
import { fill, h } from "./dom.js";
import { Find } from "./find.js";
import { bytes, counted, cut } from "./format.js";
import { keys } from "./keyboard.js";
import { failureNotice, skeleton } from "./notices.js";
import { Neighbours, rolloutHead } from "./rollout_head.js";
import { address, note } from "./router.js";
import { attemptsTable, failureBox, isLastAttempt, sections, signBox, verdict } from "./sections.js";
import { MODES, Steps } from "./steps.js";
import { rawJson } from "./text.js";
import { timeline } from "./timeline.js";
import { Tokens } from "./tokens.js";
import { Transcript } from "./transcript.js";

const BIGGEST_RAW = 20_000_000;
const LONGEST_TITLE = 120;
const PLACES = ["turn", "step", "view", "tokens"];

export function rolloutView(container, match, params) {
  const view = new RolloutPage(container, match, params);
  view.load();
  return view;
}

class RolloutPage {
  constructor(container, { source, id }, params) {
    this.container = container;
    this.source = source;
    this.id = id;
    this.params = new URLSearchParams(params);
    this.place = { paths: pathsOf(source), id };
    this.ended = new AbortController();
    this.neighbours = new Neighbours({
      path: this.place.paths.neighbours(id), address: (other) => this.#path(other),
    });
    this.parts = [this.neighbours, { destroy: keys(this.#walkKeys(), "Rollout") }];
    this.neighbours.ask(this.#filter());
  }

  async load() {
    const { signal } = this.ended;
    fill(this.container, h("div", { class: "rollout" }, skeleton(6, 4, 12)));
    try {
      this.answer = await get(this.place.paths.rollout(this.id), null, { signal });
    } catch (error) {
      if (!signal.aborted) failureNotice(this.container, error, () => this.load());
      return;
    }
    this.#draw();
  }

  update(params) {
    const before = this.#filter().toString();
    this.params = new URLSearchParams(params);
    if (this.#filter().toString() !== before) this.neighbours.ask(this.#filter());
    if (this.answer) this.#goToPlace();
  }

  destroy() {
    this.ended.abort();
    for (const part of this.parts) part.destroy();
  }

  // Puts the rollout's title into the title of the window.
  #name() {
    document.title = [cut(this.answer.view.title ?? "", LONGEST_TITLE), "rollgym"].filter(Boolean).join(" · ");
  }

  // Puts a turn or step into the address.
  #note(place) {
    note(this.#path(this.id, place));
    this.#name();
  }

  // The filter of the list, which the address keeps.
  #filter() {
    const filter = new URLSearchParams(this.params);
    for (const name of PLACES) filter.delete(name);
    return filter;
  }

  #root() {
    return `/s/${encodeURIComponent(this.source)}`;
  }

  #path(id, place = {}) {
    const query = this.#filter();
    for (const [name, value] of Object.entries(place)) query.set(name, value);
    return address(`${this.#root()}/rollouts/${encodeURIComponent(id)}`, query);
  }

  #link(place) {
    return location.origin + this.#path(this.id, place);
  }

  #draw() {
    const { view } = this.answer;
    this.#name();
    if (view.unreadable) {
      fill(this.container, h("div", { class: "rollout" }, this.#head(view), sections(view, this.place)));
      return;
    }
    this.main = h("div", { class: "rollout-main" });
    this.rawPanel = h("div", { class: "rollout-raw", hidden: true });
    this.tokensPanel = h("div", { class: "rollout-tokens", hidden: true });
    this.find = new Find({ place: this.place, within: this.main, jump: (place) => this.#find(place) });
    const isWeb = (view.steps ?? 0) > 0;
    const root = h("div", { class: `rollout${isWeb ? " is-web" : ""}` },
      this.#head(view),
      this.rawPanel,
      this.tokensPanel,
      failureBox(view.failure, this.place, { isLast: isLastAttempt(this.answer.attempts, this.id) }),
      signBox(view.signs),
      verdict(view, this.place),
      attemptsTable(this.answer.attempts, this.id, (id) => this.#path(id)),
      isWeb ? null : this.#timeline(view),
      this.find.node,
      h("div", { class: "rollout-body" }, this.main,
        h("aside", { class: "rollout-side", "aria-label": "Facts" }, sections(view, this.place))));
    fill(this.container, root);
    this.parts.push(this.find);
    if (isWeb) this.#addSteps(view);
    if (view.turns || view.prompt?.length || !isWeb) this.#addTranscript(view);
    this.parts.push({ destroy: keys(this.#keys(), "Rollout") });
    this.#goToPlace();
    const sought = this.params.get("q");
    if (sought) this.find.seek(sought, { go: !this.params.has("step") && !this.params.has("turn") });
  }

  // Its bars link to the steps of a rollout that has steps, else to the turns.
  #timeline(view) {
    return view.steps
      ? timeline(view.timeline, { jump: (step) => this.#jump({ step }), noun: "step" })
      : timeline(view.timeline, { jump: (turn) => this.#jump({ turn }), noun: "turn" });
  }

  #addSteps(view) {
    this.steps = new Steps({
      place: this.place,
      total: view.steps,
      selected: (index, mode) => this.#note(stepPlace(index, mode)),
      address: (index, mode) => this.#link(stepPlace(index, mode)),
    });
    // Screenshots first, the timeline below them.
    this.main.append(this.steps.node, this.#timeline(view) ?? "");
    this.parts.push(this.steps);
  }

  #addTranscript(view) {
    const turns = view.turns ?? 0;
    const prompt = view.prompt ?? [];
    const list = h("div", {});
    this.main.append(h("section", { class: "transcript", "aria-label": "Transcript" },
      h("h2", { class: "transcript-title" }, "Transcript ",
        turns ? h("span", { class: "muted" }, counted(turns, "turn"),
          view.failure ? " up to the failure" : "") : null),
      list,
      turns ? null : h("p", { class: "muted transcript-none" }, nothingWords(view, prompt.length > 0))));
    this.transcript = new Transcript({
      scroller: this.container,
      container: list,
      place: this.place,
      prompt,
      total: turns,
      inset: () => (this.find.node.hidden ? 8 : this.find.node.offsetHeight + 16),
      selected: (index) => this.#note({ turn: index + 1 }),
      address: (index) => this.#link({ turn: index + 1 }),
    });
    this.parts.push(this.transcript);
  }

  // Goes to the turn or step in the address, which counts from 1.
  #goToPlace() {
    const step = placeOf(this.params.get("step"));
    const turn = placeOf(this.params.get("turn"));
    const view = this.params.get("view");
    const mode = MODES.some(([name]) => name === view) ? view : "before";
    this.steps?.show(step ?? this.steps.index, { quietly: true, mode });
    if (turn !== null) this.transcript?.show(turn, { quietly: true });
    const branch = placeOf(this.params.get("tokens"));
    if (branch !== null && this.answer.view.has_tokens) this.#showTokens(branch);
  }

  #jump({ step, turn }) {
    if (step !== undefined) {
      this.steps?.show(step);
      this.steps?.node.scrollIntoView({ block: "nearest" });
    } else {
      this.transcript?.show(turn);
    }
  }

  // Goes to a match, and returns a promise of its element. The focus stays in the find bar.
  async #find({ step, turn }) {
    if (step !== undefined) {
      await this.steps?.show(step);
      return this.steps?.present;
    }
    this.transcript?.show(turn, { focus: false });
    return this.transcript?.nodeOf(turn);
  }

  #head(view) {
    const addresses = {
      list: address(`${this.#root()}/rollouts`, this.#filter()),
      compare: address(`${this.#root()}/tasks/${view.summary.task}`, this.#filter()),
      of: (id) => this.#path(id),
    };
    return rolloutHead({
      id: this.id, answer: this.answer, addresses, tools: this.#tools(view), walk: this.neighbours.node,
    });
  }

  #tools(view) {
    const copy = copyButton(() => location.href, { words: "Copy link", title: "Copy a link to this view" });
    if (view.unreadable) return h("div", { class: "tools-row" }, copy);
    const { paths } = this.place;
    const raw = withQuery(paths.raw(this.id), { download: "1" });
    return h("div", { class: "tools-row" },
      button(["Find ", h("kbd", {}, "/")], () => this.find.open()),
      copy,
      this.#tokensButton(view),
      view.bytes <= BIGGEST_RAW
        ? button("Raw JSON", (event) => this.#toggleRaw(event.currentTarget), { "aria-expanded": "false" })
        : h("a", { class: "button", href: raw, download: "" }, `Download JSON (${bytes(view.bytes)})`),
      h("a", { class: "button", href: paths.page(this.id), download: "" }, "Download page"));
  }

  // Present if the rollout has exact tokens.
  #tokensButton(view) {
    if (!view.has_tokens) return null;
    const toggle = () => (this.tokensPanel.hidden ? this.#showTokens(0, { noted: true }) : this.#hideTokens());
    this.tokensButton = button("Tokens", toggle, { "aria-expanded": "false" });
    return this.tokensButton;
  }

  #showTokens(branch, { noted = false } = {}) {
    if (!this.tokens) {
      this.tokens = new Tokens({
        place: this.place, selected: (index) => this.#note({ tokens: index + 1 }),
      });
      this.tokensPanel.append(this.tokens.node);
      this.parts.push(this.tokens);
    }
    this.tokensPanel.hidden = false;
    this.tokensButton?.setAttribute("aria-expanded", "true");
    this.tokens.show(branch);
    if (noted) this.#note({ tokens: branch + 1 });
  }

  #hideTokens() {
    this.tokensPanel.hidden = true;
    this.tokensButton?.setAttribute("aria-expanded", "false");
    this.#note({});
  }

  #toggleRaw(button) {
    this.rawPanel.hidden = !this.rawPanel.hidden;
    button.setAttribute("aria-expanded", String(!this.rawPanel.hidden));
    if (this.rawPanel.hidden || this.rawPanel.hasChildNodes()) return;
    const raw = withQuery(this.place.paths.raw(this.id), { download: "1" });
    const download = h("a", { href: raw, download: "" }, "Download this JSON");
    fill(this.rawPanel, h("p", {}, download), rawJson(this.place, ""));
  }

  // Valid before the rollout is loaded, to page through many quickly.
  #walkKeys() {
    return {
      "]": { words: "Next rollout", run: () => this.neighbours.goTo("next") },
      "[": { words: "Previous rollout", run: () => this.neighbours.goTo("previous") },
    };
  }

  #keys() {
    const move = (by) => (this.transcript && !this.steps ? this.transcript.move(by) : this.steps?.move(by));
    const noun = this.steps ? "step" : "turn";
    const next = () => (this.find.active ? this.find.move(1) : this.neighbours.goTo("next"));
    const previous = () => (this.find.active ? this.find.move(-1) : this.neighbours.goTo("previous"));
    const map = {
      j: { words: `Next ${noun}`, run: () => move(1) },
      k: { words: `Previous ${noun}`, run: () => move(-1) },
      n: { words: "Next rollout, or next match", run: next },
      p: { words: "Previous rollout, or previous match", run: previous },
      "/": { words: "Find in this rollout", run: () => this.find.open() },
      Escape: { words: "Close the find bar", run: () => this.find.close() },
      r: { words: `Raw JSON of the ${noun}`, run: () => (this.steps ?? this.transcript?.present())?.toggleRaw() },
      o: { words: "Fold or unfold the reasoning", run: () => this.transcript?.present()?.toggleReasoning() },
    };
    if (!this.steps) {
      // Turns have estimated heights, so the browser does not know the real end.
      return {
        ...map,
        Home: { words: "First turn", run: () => this.transcript.scrollToTop() },
        End: { words: "Last turn", run: () => this.transcript.scrollToEnd() },
      };
    }
    return {
      ...map,
      ArrowRight: { words: "Next step", run: () => this.steps.move(1) },
      ArrowLeft: { words: "Previous step", run: () => this.steps.move(-1) },
      Home: { words: "First step", run: () => this.steps.show(0) },
      End: { words: "Last step", run: () => this.steps.show(this.steps.total - 1) },
      b: { words: "Screenshot before or after the action", run: () => this.steps.toggleAfter() },
    };
  }
}

// The address parameters of a step.
function stepPlace(index, mode) {
  return { step: index + 1, ...(mode === "before" ? {} : { view: mode }) };
}

// The text for an empty transcript.
function nothingWords({ failure }, isAsked) {
  return `Nothing ${isAsked ? "more " : ""}was recorded${failure ? " before it failed" : ""}.`;
}

// The index of a turn or step in the address; null if it is not valid.
function placeOf(text) {
  const place = Number(text);
  return text && Number.isInteger(place) && place > 0 ? place - 1 : null;
}
