// The shell around the views: header, tabs, routes, and the shortcuts that are valid everywhere.

import { fill, h, refill } from "./dom.js";
import { filterOf } from "./filter_params.js";
import { count, percent } from "./format.js";
import { keys, listenForKeys, showHelp } from "./keyboard.js";
import { listView } from "./list.js";
import { liveView } from "./live.js";
import { failureNotice, missingView, ofRun } from "./notices.js";
import { overviewView } from "./overview.js";
import { address, link, navigate, start } from "./router.js";
import { configurationView, runsView } from "./runs.js";
import {
  isConnected, listenForEvents, loadSources, onSource, prefer, shareRead, sourceOf, sources,
} from "./state.js";
import { tasksView } from "./tasks.js";
import { listenForTips } from "./tooltip.js";

const TABS = [
  { name: "overview", title: "Overview", path: "", key: "g o" },
  { name: "tasks", title: "Tasks", path: "tasks", key: "g t" },
  { name: "list", title: "Rollouts", path: "rollouts", key: "g l" },
  { name: "live", title: "Live", path: "live", key: "g v" },
];
const TAB_OF = { rollout: "list", repeats: "tasks" };

const ROUTES = [
  { name: "runs", pattern: "/", view: runsView },
  { name: "overview", pattern: "/s/{source}/?", view: ofRun(overviewView) },
  { name: "tasks", pattern: "/s/{source}/tasks", view: ofRun(tasksView) },
  { name: "repeats", pattern: "/s/{source}/tasks/{task}", view: ofRun(later("./compare.js", "repeatsView")) },
  { name: "list", pattern: "/s/{source}/rollouts", view: ofRun(listView) },
  { name: "rollout", pattern: "/s/{source}/rollouts/{id}", view: ofRun(later("./rollout.js", "rolloutView")) },
  { name: "live", pattern: "/s/{source}/live", view: ofRun(liveView) },
  { name: "compare", pattern: "/compare", view: later("./compare.js", "joinedView") },
  { name: "configuration", pattern: "/configuration", view: configurationView },
  { name: "missing", pattern: ".*", view: missingView },
];

const header = h("header", { class: "top" });
const main = h("main", { id: "main", tabindex: "-1" });
const runState = h("span", { class: "run-status", role: "status" });
let drawn = 0; // how many sources the header has
let about = { path: location.pathname, params: new URLSearchParams(), match: {}, name: "" };

// A view from a module that is loaded when it is first needed.
function later(module, name) {
  return (container, match, params) => {
    let instance = null;
    let ended = false;
    let latest = params;
    const mount = () => import(module).then((loaded) => {
      if (!ended) instance = loaded[name](container, match, latest);
    }).catch((error) => {
      if (!ended) failureNotice(container, error, () => location.reload());
      throw error;
    });
    mount();
    return {
      update(changed) {
        latest = changed;
        if (instance?.update) {
          instance.update(changed);
        } else if (instance) {
          instance.destroy?.();
          instance = null;
          container.replaceChildren();
          mount();
        }
      },
      destroy() {
        ended = true;
        instance?.destroy?.();
      },
    };
  };
}

function drawHeader() {
  const source = sourceOf(about.match.source ?? "");
  drawn = sources().length;
  refill(header,
    h("a", { class: "skip", href: "#main", text: "Skip to content", on: { click: skip } }),
    link({ href: "/", class: "brand", "aria-label": "rollgym viewer, all runs", data: { key: "brand" } },
      h("img", { src: "/static/icon.svg", alt: "", width: 20, height: 20 }),
      h("span", { text: "rollgym" })),
    sourceName(source),
    source ? tabs() : h("span", { class: "tabs" }),
    h("div", { class: "tools" }, runState,
      h("button", {
        class: "quiet icon", "aria-label": themeWords(), data: { tip: themeWords(), key: "theme" },
        on: { click: toggleTheme },
      }, isDark() ? "☀" : "☾"),
      h("button", {
        class: "quiet icon", "aria-label": "Keyboard shortcuts",
        data: { tip: "Keyboard shortcuts (?)", key: "help" }, on: { click: showHelp },
      }, "?")));
  drawStanding();
}

function sourceName(source) {
  const all = sources();
  if (!source) {
    const words = all.length > 1 ? `${count(all.length)} runs` : "";
    return h("span", { class: "source" }, h("strong", { text: words }));
  }
  if (all.length < 2) {
    return h("span", { class: "source" },
      h("strong", { text: source.title, title: source.path }));
  }
  const choose = (event) => {
    const tab = TABS.find((one) => one.name === (TAB_OF[about.name] ?? about.name)) ?? TABS[0];
    navigate(pathOf(event.target.value, tab));
  };
  return h("span", { class: "source" }, h("select", {
    "aria-label": "Run", value: about.match.source, data: { key: "source" }, title: source.path,
    on: { change: choose },
  }, all.map((one) => h("option", { value: one.id, text: one.title }))));
}

function tabs() {
  const present = TAB_OF[about.name] ?? about.name;
  return h("nav", { class: "tabs", "aria-label": "Views" }, TABS.map((tab) => link({
    href: tabAddress(tab),
    "aria-current": tab.name === present ? "page" : null,
    data: { key: tab.name },
  }, tab.title)));
}

// Filters are kept from one tab to the next.
function tabAddress(tab) {
  const filtered = tab.name === "live" ? null : filterOf(about.params);
  return address(pathOf(about.match.source, tab), filtered);
}

function pathOf(source, tab) {
  return `/s/${encodeURIComponent(source)}/${tab.path}`;
}

// A new run changes the whole header; otherwise only the state of this run is drawn again.
function sourceChanged() {
  if (sources().length === drawn) drawStanding();
  else drawHeader();
}

function drawStanding() {
  const source = sourceOf(about.match.source ?? "");
  const [tone, ...words] = standingOf(source);
  runState.className = `run-status ${tone}`;
  fill(runState, words);
}

function standingOf(source) {
  if (isConnected() === false) return ["bad", "not connected"];
  if (!source) return [""];
  const { state } = source;
  if (state.problem) return ["bad", h("span", { data: { tip: state.problem } }, "cannot be read")];
  if (!state.ready) {
    const share = shareRead(state);
    return ["muted",
      h("progress", { max: "1", value: share, "aria-label": "Share of the files that was read" }),
      `reading ${percent(share)}`];
  }
  if (!source.live) return [""];
  return ["good",
    h("span", { class: "live-dot", "aria-hidden": "true" }),
    h("span", { data: { tip: "This run is still running; the page updates itself" } }, "live")];
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function themeWords() {
  return isDark() ? "Light theme" : "Dark theme";
}

function toggleTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  prefer("theme", theme);
  document.dispatchEvent(new CustomEvent("theme"));
  drawHeader();
}

function skip(event) {
  event.preventDefault();
  main.focus();
}

function shortcuts() {
  const map = {};
  for (const tab of TABS) {
    map[tab.key] = {
      words: `Go to ${tab.title}`,
      run: () => sourceOf(about.match.source) && navigate(tabAddress(tab)),
    };
  }
  map["g r"] = { words: "Go to all runs", run: () => navigate("/") };
  keys(map, "Everywhere");
}

function changed(now) {
  about = now;
  const source = sourceOf(now.match.source ?? "");
  const tab = TABS.find((one) => one.name === now.name)?.title;
  document.title = [tab, source?.title, "rollgym"].filter(Boolean).join(" · ");
  drawHeader();
}

async function begin() {
  document.body.append(header, main);
  listenForTips();
  listenForKeys();
  shortcuts();
  try {
    await loadSources();
  } catch (error) {
    failureNotice(main, error, () => location.reload());
    return;
  }
  onSource(sourceChanged);
  start(main, ROUTES, changed);
  listenForEvents();
}

begin();
