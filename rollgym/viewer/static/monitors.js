// What the task monitors of several ranks say together.

const FRESH_SECONDS = 30; // a monitor writes far more often
const ADDED = ["expected", "retried", "timeouts", "steps", "missed"];
const OF_NOW = ["overdue", "in_flight_limit"];
const OPEN = ["running", "waiting", "not_started"];

// Whether its rank broke off: nothing came from it for long, and it did not say that it is finished.
export function isSilent({ time, finished }) {
  return !finished && Date.now() / 1000 - time > FRESH_SECONDS;
}

// One snapshot of all; null where there is none. Whatever only some know is of those, and what goes on
// now is of those that are not silent.
export function joinSnapshots(known) {
  if (!known.length) return null;
  const heard = known.filter((one) => !isSilent(one));
  const rates = valuesOf(heard, "rollouts_per_minute");
  return {
    title: known.length === 1 ? known[0].title : "",
    ...Object.fromEntries(ADDED.map((name) => [name, sum(valuesOf(known, name))])),
    ...Object.fromEntries(OF_NOW.map((name) => [name, sum(valuesOf(heard, name))])),
    counts: sums(known.map((one) => (isSilent(one) ? brokenOff(one.counts) : one.counts ?? {}))),
    failures: sums(valuesOf(known, "failures")),
    finished: known.every((one) => one.finished),
    stopping: valuesOf(heard, "stopping")[0] ?? null,
    elapsed: Math.max(0, ...valuesOf(known, "elapsed")),
    rollouts_per_minute: rates.length ? sum(rates) : null,
    remaining_seconds: remainingOf(heard.filter((one) => !one.finished)),
    live: valuesOf(heard, "live").flat().sort((a, b) => urgency(b) - urgency(a)),
  };
}

// Nothing runs there any more: whatever has not ended will not.
function brokenOff(counts = {}) {
  const ended = Object.entries(counts).filter(([state]) => !OPEN.includes(state));
  return { ...Object.fromEntries(ended), not_started: sum(OPEN.map((state) => counts[state] ?? 0)) };
}

// The slowest decides; one that cannot tell may be it.
function remainingOf(running) {
  const left = valuesOf(running, "remaining_seconds");
  return left.length && left.length === running.length ? Math.max(...left) : null;
}

function valuesOf(snapshots, name) {
  return snapshots.map((one) => one[name]).filter((value) => value !== null && value !== undefined);
}

// Those that are overdue first, then those that run longest.
function urgency(task) {
  return (task.overdue ? 1e12 : 0) + (task.seconds ?? 0);
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

function sums(counts) {
  const total = {};
  for (const count of counts) {
    for (const [name, value] of Object.entries(count)) total[name] = (total[name] ?? 0) + value;
  }
  return total;
}

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
