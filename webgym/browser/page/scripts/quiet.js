// Waiting until the page is quiet: nothing changed for a while, and a frame was painted since.
//
// A loading image in view, a loading font, and what began since the step do count: short timers,
// and animations. Elements that change without end (clocks, tickers, spinners) do not: an element
// that was seen to change for `TICKER_MS` is one of them for the life of its document.

const WATCHED = {
  subtree: true,
  childList: true,
  characterData: true,
  attributes: true,
  attributeFilter: [
    "class", "style", "hidden", "open", "src", "srcset", "href", "value", "checked", "selected",
    "disabled", "aria-busy", "aria-expanded", "aria-hidden", "aria-selected",
  ],
};
const TICKER_MS = 1200;
const REPEATS_OF_CHILDREN = 30;
const PAINT_WAIT_MS = 150;
const PAINT_CHECK_MS = 10;
const CHECK_MS = 40;
const CLOCK_MS = 2000;
const FRAME_MS = 100; // CSS animations start at the time of the last frame, which may be before the step
const tickers = new WeakSet();
const givenUp = new WeakSet(); // what did not load within the limit of a step

// Answers "quiet", "busy" at the limit, or "endless" if only that goes on which cannot be awaited.
function quiet(quietMs, limitMs, clockMs, ageMs) {
  const started = performance.now();
  const since = stepStart(started, clockMs, ageMs);
  const changes = new Changes(started);
  noteRoots();
  for (const root of watchedRoots()) changes.observer.observe(root, WATCHED);
  return new Promise((resolve) => {
    let painted = false;
    let ending = false;
    const done = (answer) => {
      changes.observer.disconnect();
      resolve(answer);
    };
    const check = () => {
      const now = performance.now();
      const left = started + limitMs - now;
      const rest = changes.last + quietMs - now;
      const soon = (wait) => setTimeout(check, Math.min(left, wait));
      if (left <= 0) {
        for (const part of loadingParts()) givenUp.add(part);
        return done("busy");
      }
      if (rest > 0) return soon(rest);
      if (!painted) return soon(PAINT_CHECK_MS);
      const timers = pendingTimers(since);
      if (timers.wait !== null) {
        changes.last = now;
        return soon(Math.max(timers.wait, quietMs));
      }
      const animations = runningAnimations(since, left);
      if (animations.ending || loadingParts().length) {
        ending = animations.ending;
        return soon(CHECK_MS);
      }
      if (ending) {
        // The page hears of the end with the next frame, and may do something then.
        ending = painted = false;
        changes.last = now;
        afterPaint(() => (painted = true));
        return soon(quietMs);
      }
      return done(timers.looped || animations.endless ? "endless" : "quiet");
    };
    afterPaint(() => (painted = true));
    check();
  });
}

// The start of the step by the clock of the machine. Where that was set to another time meanwhile,
// the age of the step is close.
function stepStart(now, clockMs, ageMs) {
  const byClock = clockMs - performance.timeOrigin;
  return Math.min(Math.max(byClock, now - ageMs - CLOCK_MS), now - ageMs);
}

class Changes {
  constructor(started) {
    this.last = started;
    this.targets = new WeakMap();
    this.observer = new MutationObserver((records) => records.forEach((each) => this.note(each)));
  }

  note(record) {
    const { target, type } = record;
    if (isOurs(record) || tickers.has(target)) return;
    const now = performance.now();
    const seen = this.targets.get(target) ?? { since: now, count: 0 };
    this.targets.set(target, seen);
    seen.count += 1;
    if (type === "childList") {
      if (seen.count <= REPEATS_OF_CHILDREN) this.last = now;
    } else if (now - seen.since < TICKER_MS) this.last = now;
    else tickers.add(target);
  }
}

const isHost = (node) => nodeType(node) === ELEMENT && tagOf(node) === HOST;
const isOurs = ({ type, addedNodes, removedNodes }) =>
  type === "childList" && [...addedNodes, ...removedNodes].every(isHost);

function watchedRoots() {
  return [...readableViews().map((view) => view.document), ...attachedRoots()];
}

// How long the timers of the page that were set since a time are still pending, or null; and
// whether there are some that are set again and again.
function pendingTimers(since) {
  const age = performance.now() - since;
  let wait = null;
  let looped = false;
  for (const view of readableViews()) {
    const now = view.performance.now();
    const timers = askEarly(view, now - age);
    looped ||= timers.looped;
    if (timers.count) wait = Math.max(wait ?? 0, timers.due - now);
  }
  return { wait, looped };
}

// A frame is painted when its callbacks have run, before any later timer; a second one would only
// cost time. Background pages may paint late or never, so a timer limits the wait.
function afterPaint(callback) {
  requestAnimationFrame(callback);
  setTimeout(callback, PAINT_WAIT_MS);
}

// What is loading and may change what is in view.
function loadingParts() {
  const view = { left: 0, top: 0, right: innerWidth, bottom: innerHeight };
  const isPending = (image) =>
    !image.complete && touches(boundsOf(image), view) && checkVisibility(image);
  const parts = Array.from(document.images).filter(isPending);
  if (document.readyState === "loading") parts.push(document);
  if (document.fonts?.status === "loading") parts.push(document.fonts);
  return parts.filter((part) => !givenUp.has(part));
}

// Whether animations that began since a time end before the limit, and whether some go on after it.
// Those that never end are not waited for.
function runningAnimations(since, left) {
  const age = performance.now() - since;
  let [ending, endless] = [false, false];
  for (const root of watchedRoots()) {
    for (const { playState, effect, startTime, currentTime, playbackRate, timeline } of
      root.getAnimations()) {
      if (playState !== "running" || !effect || timeline?.currentTime == null) continue;
      if (startTime !== null && timeline.currentTime - startTime > age + FRAME_MS) continue;
      const { endTime } = effect.getComputedTiming();
      if (!Number.isFinite(endTime)) continue;
      const rest = (endTime - (currentTime ?? 0)) / (Math.abs(playbackRate) || 1);
      if (rest > left) endless = true;
      else if (rest > 0) ending = true;
    }
  }
  return { ending, endless };
}
