// The grids of a run: one, or one for each rank under its name.

import { CellGrid } from "./cells.js";
import { fill, h } from "./dom.js";
import { recordWords } from "./format.js";

export class Boards {
  // `address(id)` gives the link to a rollout.
  constructor(address) {
    this.address = address;
    this.node = h("div", { class: "boards" });
    this.grids = [];
  }

  // Those of snapshots or of the index: `cells`, `rollouts_per_cell`, and `title` and `entries` where
  // there are some.
  draw(boards) {
    if (this.grids.length !== boards.length) this.#begin(boards.length);
    boards.forEach((board, at) => {
      const { grid, title } = this.grids[at];
      title.hidden = boards.length < 2;
      title.textContent = board.title ?? "";
      grid.draw(board.cells ?? "", board.rollouts_per_cell ?? 1, this.#hrefs(board.entries ?? []));
    });
  }

  destroy() {
    for (const { grid } of this.grids) grid.destroy();
  }

  #begin(many) {
    this.destroy();
    this.grids = Array.from({ length: many }, () => ({ grid: new CellGrid(), title: h("h3") }));
    fill(this.node, this.grids.map(({ grid, title }) => h("section", {}, title, grid.node)));
  }

  #hrefs(entries) {
    return (index) => {
      const entry = entries[index] ?? null;
      return entry === null ? null : this.address(recordWords(entry));
    };
  }
}
