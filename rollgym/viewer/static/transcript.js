// The conversation of a rollout, of any length: the prompt, then the turns. Only turns near the view are
// in the document, and turns are fetched when they come near.

import { get } from "./api.js";
import { h } from "./dom.js";
import { Portions } from "./pages.js";
import { TurnNode } from "./turn.js";
import { VariableList } from "./virtual.js";

const PORTION = 50;
const ESTIMATE = 140;
const KEPT = 120;
const NEAR = 4; // portions that are searched for the other end of a call

export class Transcript {
  // `selected(index)` is called with the selected turn; `address(index)` returns the link of a turn.
  constructor({ scroller, container, place, prompt, total, selected, address, inset }) {
    this.place = place;
    this.prompt = prompt;
    this.total = total;
    this.selectedTurn = selected;
    this.address = address;
    this.inset = inset;
    this.nodes = new Map(); // list index → TurnNode; keeps open folds
    this.calls = new Map(); // call id → {call: turn index, result: turn index}
    this.selected = null;
    this.turns = new Portions({
      total,
      size: PORTION,
      load: async (from, size) => (await get(place.paths.turns(place.id), { from, count: size })).turns,
      loaded: (turns) => this.#index(turns),
    });
    this.list = new VariableList({
      scroller,
      container,
      total: prompt.length + total,
      estimate: ESTIMATE,
      render: (index) => this.#render(index),
    });
  }

  // Scrolls a turn to the top and selects it. `quietly`: without calling `selected`.
  show(index, { quietly = false, focus = !quietly } = {}) {
    const turn = Math.min(Math.max(index, 0), this.total - 1);
    if (turn < 0) return;
    this.#mark(turn);
    this.list.scrollToIndex(this.prompt.length + turn, { offset: this.inset() });
    if (!quietly) this.selectedTurn(turn);
    if (focus) this.present()?.node.focus({ preventScroll: true });
  }

  // A promise of the element of a turn that is being shown; null if it was removed again.
  async nodeOf(turn) {
    await this.turns.get(turn);
    return this.nodes.get(this.prompt.length + turn)?.node ?? null;
  }

  // Moves the selection; to the first visible turn if none is selected.
  move(by) {
    if (this.selected !== null) this.show(this.selected + by);
    else this.show(Math.max(0, this.list.visible()[0] - this.prompt.length));
  }

  // Scrolls to the last turn without selecting it.
  scrollToEnd() {
    this.list.scrollToIndex(this.prompt.length + this.total - 1, { offset: this.inset() });
  }

  // Scrolls to the top of the page.
  scrollToTop() {
    this.list.scrollToTop();
  }

  // The TurnNode of the selected turn, if it is drawn.
  present() {
    return this.selected === null ? null : this.nodes.get(this.prompt.length + this.selected) ?? null;
  }

  destroy() {
    this.list.destroy();
  }

  #index(turns) {
    for (const turn of turns) {
      for (const call of turn.calls ?? []) if (call.id) this.#ends(call.id).call ??= turn.index;
      if (turn.tool_call_id) this.#ends(turn.tool_call_id).result ??= turn.index;
    }
  }

  #ends(id) {
    if (!this.calls.has(id)) this.calls.set(id, {});
    return this.calls.get(id);
  }

  #render(index) {
    const kept = this.nodes.get(index);
    if (kept) return kept.node;
    if (index < this.prompt.length) return this.#make(index, this.prompt[index]);
    const turn = this.turns.get(index - this.prompt.length);
    return turn instanceof Promise ? turn.then((known) => this.#make(index, known)) : this.#make(index, turn);
  }

  #make(index, turn) {
    if (!turn) return h("p", { class: "problem" }, "This turn no longer exists: the file was changed.");
    const isPrompt = index < this.prompt.length;
    const made = new TurnNode(turn, {
      place: this.place,
      number: isPrompt ? "" : String(turn.index + 1),
      address: isPrompt ? null : () => this.address(turn.index),
      seek: isPrompt ? null : (from, call) => this.#seek(from, call),
    });
    if (!isPrompt) made.node.addEventListener("click", (event) => this.#clicked(event, turn.index));
    made.node.classList.toggle("is-selected", !isPrompt && turn.index === this.selected);
    this.nodes.set(index, made);
    this.#forget();
    return made.node;
  }

  // Removes the oldest nodes, which are created again when they come back.
  #forget() {
    for (const [index, { node }] of this.nodes) {
      if (this.nodes.size <= KEPT) break;
      if (!node.isConnected) this.nodes.delete(index);
    }
  }

  // A click in a turn selects it, unless it is on a control or text is selected.
  #clicked(event, turn) {
    if (this.selected === turn || getSelection()?.type === "Range") return;
    if (event.target.closest("button, a, summary")) return;
    this.#mark(turn);
    this.selectedTurn(turn);
  }

  #mark(turn) {
    this.present()?.node.classList.remove("is-selected");
    this.selected = turn;
    this.present()?.node.classList.add("is-selected");
  }

  // Goes to the other end of a call, which is searched for nearby if it is not loaded.
  async #seek(from, id) {
    const end = from.tool_call_id === id ? "call" : "result";
    const step = end === "call" ? -PORTION : PORTION;
    for (let round = 0, at = from.index; round < NEAR && at >= 0 && at < this.total; round += 1, at += step) {
      if (this.#ends(id)[end] !== undefined) break;
      await this.turns.get(at);
    }
    const found = this.#ends(id)[end];
    if (found !== undefined) this.show(found);
  }
}
