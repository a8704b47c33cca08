// One turn of a conversation: its role, reasoning, texts, pictures, calls and results.

import { text as fetchText } from "./api.js";
import { copyButton, quietButton } from "./buttons.js";
import { fill, h } from "./dom.js";
import { count, cut } from "./format.js";
import { pretty } from "./json.js";
import { enlargeable } from "./pictures.js";
import { fold, oneLine, rawJson, TextBlock } from "./text.js";

const ROLES = new Map([
  ["system", "System"], ["developer", "Developer"], ["user", "User"], ["assistant", "Assistant"],
  ["tool", "Tool result"],
]);
const SYSTEM_EXCERPT = 1_200;
const PREVIEW = 110;

export class TurnNode {
  // `place`: {paths, id}. `number`: its number, "" for a turn of the prompt. `address()` returns its
  // link. `seek(turn, call)` goes to the turn that has the other end of a call.
  constructor(turn, { place, number = "", address = null, seek = null, excerpt = undefined }) {
    this.turn = turn;
    this.place = place;
    this.seek = seek;
    this.excerpt = excerpt ?? (turn.role === "system" ? SYSTEM_EXCERPT : undefined);
    this.blocks = [];
    this.raw = h("div", { class: "turn-raw", hidden: true });
    const role = ROLES.has(turn.role) ? turn.role : "other";
    this.node = h("article", {
      class: `turn turn-${role}`,
      "aria-label": `${this.#title()} ${number}`.trim(),
      tabindex: "-1",
      data: number ? { turn: turn.index } : {},
    },
      h("header", { class: "turn-head" }, this.#heading(number), this.#buttons(address)),
      h("div", { class: "turn-body" }, this.#reasoning(), this.#parts(), this.#calls(), this.#nothing()),
      this.raw);
  }

  // Folds or unfolds the reasoning.
  toggleReasoning() {
    const details = this.node.querySelector("details.reasoning");
    if (details) details.open = !details.open;
  }

  toggleRaw() {
    this.raw.hidden = !this.raw.hidden;
    this.rawButton?.setAttribute("aria-pressed", String(!this.raw.hidden));
    if (!this.raw.hidden && !this.raw.hasChildNodes()) fill(this.raw, rawJson(this.place, this.turn.path));
  }

  #title() {
    return ROLES.get(this.turn.role) ?? this.turn.role;
  }

  #heading(number) {
    const { tool, tool_call_id: call, is_error: isError, version } = this.turn;
    const back = this.turn.role === "tool" && call && this.seek
      ? quietButton("↑ call", () => this.seek(this.turn, call), { title: "Go to the call" })
      : null;
    return h("div", { class: "turn-who" },
      h("span", { class: "turn-role" }, this.#title()),
      tool ? h("code", { class: "tool-name" }, tool) : null,
      isError ? h("span", { class: "turn-error" }, "error") : null,
      number ? h("span", { class: "turn-number" }, number) : null,
      version ? h("span", { class: "turn-version", data: { tip: "The policy version that sampled this turn" } },
        `version ${version}`) : null,
      back);
  }

  #buttons(address) {
    const toggle = () => {
      const plain = this.plainButton.getAttribute("aria-pressed") !== "true";
      this.plainButton.setAttribute("aria-pressed", String(plain));
      for (const block of this.blocks) block.setPlain(plain);
    };
    const off = { "aria-pressed": "false" };
    this.plainButton = quietButton("As text", toggle, { ...off, title: "Show the texts without formatting" });
    this.rawButton = quietButton("Raw", () => this.toggleRaw(), { ...off, title: "Show the JSON of this turn (r)" });
    return h("div", { class: "turn-buttons" },
      this.turn.parts?.some((part) => "text" in part) ? this.plainButton : null,
      this.rawButton,
      copyButton(() => this.#everything(), { title: "Copy this turn's text" }),
      address ? copyButton(address, { words: "Link", title: "Copy a link to this turn" }) : null);
  }

  // The whole text of the turn; its JSON if it has none.
  async #everything() {
    const texts = await Promise.all(this.blocks.map((block) => block.fetchWhole()));
    if (texts.length) return texts.join("\n\n");
    return pretty(await fetchText(this.place.paths.raw(this.place.id), { path: this.turn.path }));
  }

  #block(text, format) {
    const block = new TextBlock(text, { place: this.place, format, excerpt: this.excerpt });
    this.blocks.push(block);
    return block.node;
  }

  #reasoning() {
    const { reasoning } = this.turn;
    if (!reasoning) return null;
    const summary = [
      h("span", { class: "fold-name" }, "Reasoning"),
      h("span", { class: "fold-about" }, `${count(reasoning.size)} characters`),
      h("span", { class: "fold-preview" }, cut(oneLine(reasoning.text), PREVIEW)),
    ];
    const content = () => new TextBlock(reasoning, { place: this.place }).node;
    return fold({ class: "fold reasoning" }, summary, content);
  }

  #parts() {
    const format = this.turn.role === "tool" ? "json" : "markdown";
    const alt = `Picture in ${this.#title()}`;
    return (this.turn.parts ?? []).map((part) =>
      "text" in part ? this.#block(part, format) : enlargeable(part, this.place, alt));
  }

  #calls() {
    return (this.turn.calls ?? []).map((call) => {
      const block = new TextBlock(call.arguments, { place: this.place, format: "json" });
      const forth = call.id && this.seek
        ? quietButton("↓ result", () => this.seek(this.turn, call.id), { title: "Go to the result" })
        : null;
      return h("div", { class: "call" },
        h("div", { class: "call-head" },
          h("span", { class: "call-word" }, "call"),
          h("code", { class: "call-name" }, call.name),
          call.malformed ? h("span", { class: "bad" }, "arguments are not JSON") : null,
          h("span", { class: "call-buttons" }, forth,
            copyButton(() => block.fetchWhole(), { title: "Copy the arguments" }))),
        call.arguments.size ? block.node : h("p", { class: "muted" }, "no arguments"));
    });
  }

  #nothing() {
    const { parts, calls, reasoning } = this.turn;
    const isEmpty = !parts?.length && !calls?.length && !reasoning;
    return isEmpty ? h("p", { class: "muted" }, "(empty)") : null;
  }
}
