// The grids of a run: one, or one for each rank under its name.

import { CellGrid } from "./cells.js";
import { fill, h } from "./dom.js";
import { moment, recordWords } from "./format.js";

const ENDED = "+x#!-=";

export class Boards {
  // `root` is where the pages of the source are.
  constructor(root) {
    this.root = root;
    this.node = h("div", { class: "boards" });
    this.grids = [];
  }

  // Those of snapshots or of the index: `cells`, `rollouts_per_cell`, and where there are some `title`,
  // `entries`, as pairs of task and repeat `rollouts`, and the time since when nothing came, `silentSince`.
  draw(boards) {
    if (this.grids.length !== boards.length) this.#begin(boards.length);
    boards.forEach((board, at) => {
      const { grid, title } = this.grids[at];
      const { silentSince = null } = board;
      title.hidden = boards.length < 2 && silentSince === null;
      fill(title, board.title ?? "", silentSince === null
        ? null : h("span", { class: "warn" }, " not heard of since ", moment(silentSince)));
      grid.draw(board.cells ?? "", board.rollouts_per_cell ?? 1, this.#hrefs(board));
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

  #hrefs({ cells = "", entries = [], rollouts = [] }) {
    return (index) => {
      const entry = entries[index] ?? null;
      if (entry !== null) return `${this.root}rollouts/${recordWords(entry)}`;
      if (!rollouts[index] || !ENDED.includes(cells[index])) return null;
      const [task, repeat] = rollouts[index].map(Number);
      return `${this.root}rollouts?task=${task}&repeat=${repeat}`;
    };
  }
}
