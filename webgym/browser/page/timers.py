"""Which timers of a page are pending, as a script notes it in the world of the page.

`NOTED_TIMERS` replaces the functions that set and clear timers, before the page can. It is the
beginning of the script of a document (`early`) and of that of a worker (`workers`), and defines
`timersSince`: the number of pending timers that were set since a time or by what began since then,
when the last of them is due, and whether one of them repeats without end. Requested frames are
timers too, because scripts animate with them. A short interval is pending until it is cleared or
turns out to be a loop; a longer one is a clock, and is not waited for.
"""

from string import Template

TIMER_BOUND = 1.0
"""Timers of at most this many seconds are waited for."""
INTERVAL_BOUND = 0.25
"""Intervals of at most this many seconds are waited for."""
FRAME_BOUND = 0.5
"""A frame that is later than this does not come: the page is not shown."""


class ScriptTemplate(Template):
    """A script with values that are named `@name`, because `$` is frequent in scripts."""

    delimiter = "@"


# Functions are taken at the start, before a page can replace them.
NOTED_TIMERS = ScriptTemplate(
    """
  const call = Function.prototype.call;
  const bound = (method) => call.bind(method);
  const { apply } = Reflect;
  const now = performance.now.bind(performance);
  const send = performance.dispatchEvent.bind(performance);
  const listen = performance.addEventListener.bind(performance);
  const [Table, Custom] = [Map, CustomEvent];
  const [get, set, drop] = [bound(Map.prototype.get), bound(Map.prototype.set),
    bound(Map.prototype.delete)];
  const [each, clear] = [bound(Map.prototype.forEach), bound(Map.prototype.clear)];
  const many = bound(Object.getOwnPropertyDescriptor(Map.prototype, "size").get);
  const detailOf = bound(Object.getOwnPropertyDescriptor(CustomEvent.prototype, "detail").get);
  const sourceOf = bound(Function.prototype.toString);
  const slice = bound(String.prototype.slice);
  const replace = (owner, name, change) => {
    const native = owner[name];
    if (typeof native !== "function") return;
    owner[name] = new Proxy(native, { apply: change });
  };

  const pending = new Table();
  const chains = new Table();
  let origin = null;
  const during = (since, handler) => function (...given) {
    const before = origin;
    origin = since;
    try {
      return apply(handler, this, given);
    } finally {
      origin = before;
    }
  };
  const keyOf = (handler, delay) => {
    const source = sourceOf(handler);
    return `${delay} ${source.length} ${slice(source, 0, 80)}`;
  };
  // The timers of one handler. One that is set again and again after it fired is a loop, and stays
  // one: at once, or as often as `isLoop` says within one step.
  const follow = (key, at) => {
    let chain = get(chains, key);
    if (!chain) {
      chain = { from: at, count: 0, set: -Infinity, fired: -Infinity, loop: 0,
        first: -Infinity, second: -Infinity, third: -Infinity };
      set(chains, key, chain);
    }
    if (at - chain.fired >= 50) [chain.from, chain.count] = [at, 0];
    if (chain.fired > chain.set) {
      [chain.first, chain.second, chain.third] = [chain.second, chain.third, at];
    }
    chain.set = at;
    chain.count += 1;
    if (chain.count >= 3 && at - chain.from >= @bound) chain.loop ||= at;
    return chain;
  };
  const isLoop = (chain, since) => {
    const at = now();
    if (chain.first >= since && at - chain.first >= @bound) chain.loop ||= at;
    return chain.loop > 0;
  };
  // Sets a timer and notes it by its number, which has a prefix for frames. One that is `late` does
  // not come any more.
  const noteTimer = (target, self, handler, rest, delay, prefix, late) => {
    const at = now();
    const since = origin ?? at;
    const chain = follow(keyOf(handler, delay), at);
    const run = during(since, handler);
    const number = apply(target, self, [
      function (...values) {
        drop(pending, prefix + number);
        chain.fired = now();
        return apply(run, this, values);
      },
      ...rest,
    ]);
    set(pending, prefix + number, { since, chain, due: at + delay, late });
    return number;
  };
  replace(globalThis, "setTimeout", (target, self, given) => {
    const [handler, wait, ...rest] = given;
    const delay = Number(wait) || 0;
    if (typeof handler !== "function" || delay > @bound) return apply(target, self, given);
    return noteTimer(target, self, handler, [delay, ...rest], delay, "", Infinity);
  });
  replace(globalThis, "requestAnimationFrame", (target, self, given) => {
    if (typeof given[0] !== "function") return apply(target, self, given);
    return noteTimer(target, self, given[0], [], 0, "frame", @frame);
  });
  replace(globalThis, "setInterval", (target, self, [handler, wait, ...rest]) => {
    if (typeof handler !== "function") return apply(target, self, [handler, wait, ...rest]);
    const [at, delay] = [now(), Number(wait) || 0];
    const since = origin ?? at;
    const run = during(since, handler);
    if (delay > @interval) return apply(target, self, [run, wait, ...rest]);
    const key = keyOf(handler, delay);
    const timer = { since, chain: follow(key, at), due: at + delay, late: Infinity };
    const number = apply(target, self, [
      function (...values) {
        timer.chain.fired = now();
        follow(key, timer.chain.fired);
        timer.due = timer.chain.fired + delay;
        return apply(run, this, values);
      },
      wait, ...rest,
    ]);
    set(pending, "" + number, timer);
    return number;
  });
  for (const [name, prefix] of [
    ["clearTimeout", ""], ["clearInterval", ""], ["cancelAnimationFrame", "frame"],
  ]) {
    replace(globalThis, name, (target, self, given) => {
      drop(pending, prefix + given[0]);
      return apply(target, self, given);
    });
  }
  const timersSince = (since) => {
    let [count, due, looped] = [0, 0, false];
    const at = now();
    each(pending, (timer) => {
      const isOlder = timer.chain.from < since && timer.chain.count > 1;
      if (timer.since < since || isOlder || at - timer.due > timer.late) return;
      if (isLoop(timer.chain, since)) looped ||= timer.chain.loop >= since;
      else [count, due] = [count + 1, due > timer.due ? due : timer.due];
    });
    return `[${count},${due},${looped}]`;
  };
"""
).substitute(
    bound=int(TIMER_BOUND * 1000),
    interval=int(INTERVAL_BOUND * 1000),
    frame=int(FRAME_BOUND * 1000),
)
