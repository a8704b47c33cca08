// Which rollouts the squares of monitors are of. Events do not say it, for they come every second: it is
// kept from the latest answer, and is to be asked for again when squares ended that it does not know.

const ENDED = /.*[+x#!-]/;

export class CellRollouts {
  constructor() {
    this.known = [];
  }

  // The snapshots of an answer, which have `rollouts`.
  learn(snapshots) {
    this.known = snapshots;
  }

  // The snapshots of an event with what is known of their squares.
  addTo(snapshots) {
    return snapshots.map((one, at) => ({ ...one, rollouts: this.#knownOf(one, at)?.rollouts ?? [] }));
  }

  // Whether an answer would tell more than the latest did.
  isBehind(snapshots) {
    return snapshots.some((one, at) => {
      const known = this.#knownOf(one, at);
      if (!known) return true;
      const ended = endOf(one);
      return ended > (known.rollouts?.length ?? 0) && ended > endOf(known);
    });
  }

  // One of another rank may have come or gone before it.
  #knownOf({ title }, at) {
    const known = this.known[at];
    return known?.title === title ? known : null;
  }
}

// Behind the last square that ended.
function endOf({ cells = "" }) {
  return ENDED.exec(cells)?.[0].length ?? 0;
}
