// Waiting until the page is quiet: nothing changed for a while, and a frame was painted since.
//
// Changes of style do not count, nor do elements that change repeatedly: clocks, tickers, spinners.
// A loading image in view, a loading font, and an animation that will end do count.

const WATCHED = {
  subtree: true,
  childList: true,
  characterData: true,
  attributes: true,
  attributeFilter: [
    "class", "hidden", "open", "src", "srcset", "href", "value", "checked", "selected", "disabled",
    "aria-busy", "aria-expanded", "aria-hidden", "aria-selected",
  ],
};
const REPEATS = 6;
const REPEATS_OF_CHILDREN = 30;
const PAINT_WAIT_MS = 150;
const PAINT_CHECK_MS = 10;
const CHECK_MS = 40;

function quiet(quietMs, limitMs) {
  const started = performance.now();
  const repeats = new WeakMap();
  let lastChange = started;
  const observer = new MutationObserver((records) => {
    for (const record of records) {
      if (isOurs(record)) continue;
      const count = (repeats.get(record.target) ?? 0) + 1;
      repeats.set(record.target, count);
      if (count > (record.type === "childList" ? REPEATS_OF_CHILDREN : REPEATS)) continue;
      lastChange = performance.now();
    }
  });
  for (const root of watchedRoots()) observer.observe(root, WATCHED);
  return new Promise((resolve) => {
    let painted = false;
    const done = (isQuiet) => {
      observer.disconnect();
      resolve(isQuiet);
    };
    const check = () => {
      const now = performance.now();
      const left = started + limitMs - now;
      const rest = lastChange + quietMs - now;
      if (left <= 0) done(painted && rest <= 0 && !isBusy(0));
      else if (rest > 0) setTimeout(check, Math.min(left, rest));
      else if (!painted) setTimeout(check, Math.min(left, PAINT_CHECK_MS));
      else if (isBusy(left)) setTimeout(check, Math.min(left, CHECK_MS));
      else done(true);
    };
    afterPaint(() => (painted = true));
    check();
  });
}

const isHost = (node) => nodeType(node) === ELEMENT && tagOf(node) === HOST;
const isOurs = ({ type, addedNodes, removedNodes }) =>
  type === "childList" && [...addedNodes, ...removedNodes].every(isHost);

function watchedRoots() {
  const frames = Array.from(document.querySelectorAll("iframe, frame")).slice(0, 20);
  return [document, ...frames.map(frameDocument).filter((inner) => inner !== null)];
}

// Background pages may paint late or never, so a timer limits the wait.
function afterPaint(callback) {
  requestAnimationFrame(() => requestAnimationFrame(callback));
  setTimeout(callback, PAINT_WAIT_MS);
}

function isBusy(left) {
  if (document.readyState === "loading" || document.fonts?.status === "loading") return true;
  const view = { left: 0, top: 0, right: innerWidth, bottom: innerHeight };
  const isLoading = (image) =>
    !image.complete && touches(boundsOf(image), view) && checkVisibility(image);
  if (Array.from(document.images).some(isLoading)) return true;
  return document.getAnimations().some((animation) => endsWithin(animation, left));
}

function endsWithin(animation, left) {
  if (animation.playState !== "running" || !animation.effect) return false;
  const { endTime } = animation.effect.getComputedTiming();
  const at = animation.currentTime;
  if (!Number.isFinite(endTime) || !Number.isFinite(at)) return false;
  return endTime > at && (endTime - at) / (Math.abs(animation.playbackRate) || 1) <= left;
}
