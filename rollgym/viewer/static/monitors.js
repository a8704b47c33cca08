// What the task monitors of several ranks say together.

const ADDED = ["expected", "retried", "timeouts", "overdue", "in_flight_limit", "steps", "missed"];

// One snapshot of all; null where there is none. Whatever only some know is of those.
export function joinSnapshots(known) {
  if (known.length < 2) return known[0] ?? null;
  const all = (name) => known.map((one) => one[name]).filter((value) => value !== null && value !== undefined);
  return {
    ...Object.fromEntries(ADDED.map((name) => [name, sum(all(name))])),
    counts: sums(all("counts")),
    failures: sums(all("failures")),
    finished: known.every((one) => one.finished),
    stopping: all("stopping")[0] ?? null,
    elapsed: Math.max(...all("elapsed")),
    rollouts_per_minute: all("rollouts_per_minute").length ? sum(all("rollouts_per_minute")) : null,
    // The slowest decides; one that cannot tell may be it.
    remaining_seconds: all("remaining_seconds").length < known.length ? null : Math.max(...all("remaining_seconds")),
    live: all("live").flat().sort((a, b) => urgency(b) - urgency(a)),
  };
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
