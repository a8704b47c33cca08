// The task monitors of several ranks as one.

const FRESH_SECONDS = 30; // a monitor writes far more often
const ADDED = ["expected", "retried", "timeouts", "steps", "missed"];
const OF_NOW = ["overdue", "in_flight_limit"];
const OPEN = ["running", "waiting", "not_started"];

// Whether a rank stopped without finishing: its monitor has not been written for long.
export function isSilent({ time, finished }) {
  return !finished && Date.now() / 1000 - time > FRESH_SECONDS;
}

// One snapshot of all ranks; null if there is none. Values of the present moment only come from ranks
// that are not silent.
export function joinSnapshots(known) {
  if (!known.length) return null;
  const heard = known.filter((one) => !isSilent(one));
  const rates = valuesOf(heard, "rollouts_per_minute");
  return {
    title: known.length === 1 ? known[0].title : "",
    ...Object.fromEntries(ADDED.map((name) => [name, sum(valuesOf(known, name))])),
    ...Object.fromEntries(OF_NOW.map((name) => [name, sum(valuesOf(heard, name))])),
    counts: sums(known.map((one) => (isSilent(one) ? silentCounts(one.counts) : one.counts ?? {}))),
    failures: sums(valuesOf(known, "failures")),
    finished: known.every((one) => one.finished),
    stopping: valuesOf(heard, "stopping")[0] ?? null,
    elapsed: Math.max(0, ...valuesOf(known, "elapsed")),
    rollouts_per_minute: rates.length ? sum(rates) : null,
    remaining_seconds: remainingOf(heard.filter((one) => !one.finished)),
    live: valuesOf(heard, "live").flat().sort((a, b) => urgency(b) - urgency(a)),
  };
}

// The counts of a silent rank: rollouts that have not ended will not run.
function silentCounts(counts = {}) {
  const ended = Object.entries(counts).filter(([state]) => !OPEN.includes(state));
  return { ...Object.fromEntries(ended), not_started: sum(OPEN.map((state) => counts[state] ?? 0)) };
}

// The time of the slowest rank; null if one of them is unknown.
function remainingOf(running) {
  const left = valuesOf(running, "remaining_seconds");
  return left.length && left.length === running.length ? Math.max(...left) : null;
}

function valuesOf(snapshots, name) {
  return snapshots.map((one) => one[name]).filter((value) => value !== null && value !== undefined);
}

// Overdue rollouts first, then the longest running ones.
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

// The rollouts of the squares. Events do not include them, because events come every second: they are
// kept from the latest response, and requested again when unknown squares have ended.

const ENDED = /.*[+x#!-]/;

export class CellRollouts {
  constructor() {
    this.known = [];
  }

  // Keeps the snapshots of a response, which have `rollouts`.
  learn(snapshots) {
    this.known = snapshots;
  }

  // The snapshots of an event, with the known rollouts of their squares.
  addTo(snapshots) {
    return snapshots.map((one, at) => ({ ...one, rollouts: this.#knownOf(one, at)?.rollouts ?? [] }));
  }

  // Whether a new response would know more rollouts than the latest one.
  isBehind(snapshots) {
    return snapshots.some((one, at) => {
      const known = this.#knownOf(one, at);
      if (!known) return true;
      const ended = endOf(one);
      return ended > (known.rollouts?.length ?? 0) && ended > endOf(known);
    });
  }

  // The order of ranks may have changed.
  #knownOf({ title }, at) {
    const known = this.known[at];
    return known?.title === title ? known : null;
  }
}

// The index after the last square that ended.
function endOf({ cells = "" }) {
  return ENDED.exec(cells)?.[0].length ?? 0;
}
