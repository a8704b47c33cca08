// The screenshots of a rollout in a row, of which only those in view are in the document.

import { h, fill, rem } from "./dom.js";
import { picture } from "./pictures.js";

const WIDTH = 8.5; // rem
const EDGE = 0.75;
const AROUND = 4;

export class Filmstrip {
  // `get(index)` returns a step or a promise of it; `select(index)` is called when one is selected.
  constructor({ total, place, get, select }) {
    this.total = total;
    this.place = place;
    this.get = get;
    this.select = select;
    this.frames = new Map();
    this.selected = 0;
    this.width = rem(WIDTH);
    this.edge = rem(EDGE);
    this.space = h("div", { class: "film-space", style: { width: `${total * WIDTH + 2 * EDGE}rem` } });
    this.node = h("div", { class: "film", role: "group", "aria-label": "Screenshots" }, this.space);
    this.node.addEventListener("scroll", () => this.#draw(), { passive: true });
    this.observer = new ResizeObserver(() => this.#resized());
    this.observer.observe(this.node);
  }

  // Marks a frame as selected and scrolls it into view. The focus moves with it.
  show(index) {
    const focused = this.node.contains(document.activeElement);
    this.#setCurrent(this.selected, false);
    this.selected = index;
    this.#bringIntoView();
    this.#draw();
    this.#setCurrent(index, true);
    if (focused) this.frames.get(index)?.focus({ preventScroll: true });
  }

  destroy() {
    this.observer.disconnect();
  }

  #bringIntoView() {
    const { width } = this;
    const left = this.edge + this.selected * width;
    const room = this.node.clientWidth;
    if (!room) return;
    if (left - width < this.node.scrollLeft) this.node.scrollLeft = left - width;
    if (left + 2 * width > this.node.scrollLeft + room) this.node.scrollLeft = left + 2 * width - room;
  }

  #resized() {
    this.#bringIntoView();
    this.#draw();
  }

  #setCurrent(index, current) {
    const frame = this.frames.get(index);
    if (!frame) return;
    frame.classList.toggle("is-current", current);
    frame.tabIndex = current ? 0 : -1;
    if (current) frame.setAttribute("aria-current", "true");
    else frame.removeAttribute("aria-current");
  }

  #draw() {
    const { scrollLeft: left, clientWidth: room } = this.node;
    const from = Math.max(0, Math.floor((left - this.edge) / this.width) - AROUND);
    const until = Math.min(this.total, Math.ceil((left + room) / this.width) + AROUND);
    for (const [index, frame] of [...this.frames]) {
      if ((index >= from && index < until) || frame === document.activeElement) continue;
      frame.remove();
      this.frames.delete(index);
    }
    for (let index = from; index < until; index += 1) if (!this.frames.has(index)) this.#add(index);
  }

  #add(index) {
    const frame = h("button", {
      class: "frame",
      type: "button",
      data: { step: index },
      style: { transform: `translateX(${EDGE + index * WIDTH}rem)` },
      "aria-label": `Step ${index + 1}`,
      on: { click: () => this.select(index) },
    }, h("span", { class: "frame-picture" }), h("span", { class: "frame-words" }, String(index + 1)));
    this.frames.set(index, frame);
    const next = this.frames.get(index + 1);
    if (next) next.before(frame);
    else this.space.append(frame);
    this.#setCurrent(index, index === this.selected);
    const step = this.get(index);
    if (!(step instanceof Promise)) this.#fill(index, frame, step);
    // A step that cannot be fetched stays an empty frame; the step itself shows the error.
    else step.then((known) => this.#fill(index, frame, known), () => {});
  }

  #fill(index, frame, step) {
    if (!step || this.frames.get(index) !== frame) return;
    const words = [
      `Step ${index + 1}`, step.action_key, step.judged ? "judged" : "", step.problem ? "problem" : "",
    ];
    frame.setAttribute("aria-label", words.filter(Boolean).join(", "));
    frame.classList.toggle("is-judged", Boolean(step.judged));
    fill(frame,
      h("span", { class: "frame-picture" },
        step.screenshot
          ? picture(step.screenshot, this.place, { alt: "" })
          : h("span", { class: "frame-none" }, "no screenshot"),
        step.judged ? h("span", { class: "frame-judged" }, "judged") : null,
        step.problem ? h("span", { class: "frame-problem", title: step.problem }, "!") : null),
      h("span", { class: "frame-words" }, h("b", {}, index + 1), ` ${step.action_key || step.action || ""}`));
  }
}
