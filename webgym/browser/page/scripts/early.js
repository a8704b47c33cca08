// What only the world of the page knows: the early script answers to events of secret names.

const closedRoots = new WeakMap();
const rootsNoted = new Set();
const heard = new WeakMap();
const listening = new WeakSet();
let listeners = [];

// The pending timers of a window that were set since a time: their number, when the last one is
// due, and whether one of them repeats without end. Also notes new shadow roots and listeners.
function askEarly(view, since) {
  let told = heard.get(view);
  if (!told) {
    told = { answer: "[0,0,false]" };
    heard.set(view, told);
    const { performance } = view;
    performance.addEventListener(`${CHANNEL}-timers`, (event) => (told.answer = event.detail));
    performance.addEventListener(`${CHANNEL}-root`, (event) => noteRoot(event.submitter));
    performance.addEventListener(`${CHANNEL}-used`, noteListener);
  }
  view.performance.dispatchEvent(new view.CustomEvent(CHANNEL, { detail: since }));
  const [count, due, looped] = JSON.parse(told.answer);
  return { count, due, looped };
}

function noteListener({ submitter, relatedTarget }) {
  const element = submitter ?? relatedTarget;
  if (!element || listening.has(element)) return;
  listening.add(element);
  listeners.push(new WeakRef(element));
}

// The elements on the page that listen for clicks, by their document or shadow root.
function listenersByRoot() {
  const byRoot = new Map();
  listeners = listeners.filter((reference) => reference.deref());
  for (const reference of listeners) {
    const element = reference.deref();
    if (!element || !isConnected(element)) continue;
    const root = rootNode(element);
    if (byRoot.has(root)) byRoot.get(root).push(element);
    else byRoot.set(root, [element]);
  }
  return byRoot;
}

function noteRoot(inside) {
  const root = rootNode(inside);
  if (nodeType(root) !== FRAGMENT || !root.host) return;
  rootsNoted.add(new WeakRef(root));
  if (root.mode === "closed") closedRoots.set(root.host, root);
}

// The page and its frames that can be read.
function readableViews() {
  const frames = Array.from(document.querySelectorAll("iframe, frame")).slice(0, 20);
  const inner = frames.map(frameDocument).filter((each) => each !== null);
  return [window, ...inner.map(viewOf).filter((view) => view !== null)];
}

function noteRoots() {
  for (const view of readableViews()) askEarly(view, 1e15);
}

// The shadow roots that scripts have attached and that are on the page.
function attachedRoots() {
  const roots = [];
  for (const reference of rootsNoted) {
    const root = reference.deref();
    if (!root) rootsNoted.delete(reference);
    else if (isConnected(root)) roots.push(root);
  }
  return roots;
}
