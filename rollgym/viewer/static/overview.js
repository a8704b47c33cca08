// The overview of a source: its coverage, scores, distributions and failures.

import { get, source as pathsOf } from "./api.js";
import { fill, h } from "./dom.js";
import { changed, filterOf, isFiltered } from "./filter_params.js";
import { FilterBar } from "./filters.js";
import { keys } from "./keyboard.js";
import { empty, failure, nothingYet, refusal, skeleton } from "./notices.js";
import { panels } from "./overview_panels.js";
import { address, navigate, onLeave, visit } from "./router.js";
import { nameCause, onVersion } from "./state.js";

const SEARCH_PAUSE = 700;

export function overviewView(container, match, params) {
  return new Overview(container, match.source, params);
}

class Overview {
  constructor(container, source, params) {
    this.container = container;
    this.source = source;
    this.root = `/s/${encodeURIComponent(source)}/`;
    this.filters = new FilterBar({
      source, params,
      onChange: (wanted, how) => navigate(address(this.root, filterOf(wanted)), how),
    });
    this.body = h("div", { class: "overview" }, skeleton(7, 14, 12, 14));
    container.append(h("h1", { class: "visually-hidden", text: "Overview" }), this.filters.node, this.body);
    this.scroll = visit()?.scroll ?? 0;
    onLeave(() => ({ scroll: container.scrollTop }));
    this.offKeys = keys({ "/": { words: "Search", run: () => this.filters.focus() } }, "Overview");
    this.offVersion = onVersion(source, () => this.#load());
    this.update(params);
  }

  update(params) {
    this.params = filterOf(params);
    this.filters.update(this.params, null);
    this.#load();
  }

  destroy() {
    this.asking?.abort();
    clearTimeout(this.searching);
    this.filters.destroy();
    this.offKeys();
    this.offVersion();
  }

  async #load() {
    this.asking?.abort();
    clearTimeout(this.searching);
    const control = new AbortController();
    this.asking = control;
    this.body.setAttribute("aria-busy", "true");
    try {
      const answer = await get(pathsOf(this.source).overview, this.params, { signal: control.signal });
      if (!control.signal.aborted) this.#draw(answer);
    } catch (error) {
      if (control.signal.aborted) return;
      const go = (params) => navigate(address(this.root, params));
      fill(this.body, refusal(error, this.params, go) ?? failure(error, () => this.#load()));
    }
    if (!control.signal.aborted) this.body.setAttribute("aria-busy", "false");
  }

  #draw(answer) {
    for (const cause of answer.causes) nameCause(this.source, cause.id, cause.text);
    this.filters.update(this.params, answer.search);
    if (answer.search && !answer.search.done) {
      this.searching = setTimeout(() => this.#load(), SEARCH_PAUSE);
    }
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const anything = answer.rollouts || coverageSum(answer.coverage);
    fill(this.body, anything ? panels(answer, this.#way()) : this.#nothing());
    if (this.scroll) {
      this.container.scrollTop = this.scroll;
      this.scroll = 0;
    }
    if (focused) this.#focus(focused);
  }

  // Charts are drawn in the next frame, when they know their width.
  #focus(key) {
    requestAnimationFrame(() => requestAnimationFrame(() => {
      this.body.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
    }));
  }

  #nothing() {
    if (isFiltered(this.params)) {
      return empty("No matching rollouts",
        h("button", { on: { click: () => navigate(this.root) } }, "Clear filters"));
    }
    return nothingYet(this.source, "No rollouts yet", "Charts appear here as soon as rollouts are written.");
  }

  // The links of the charts.
  #way() {
    const { params, root } = this;
    return { params, root, list: (changes) => address(`${root}rollouts`, changed(params, changes)) };
  }
}

function coverageSum({ completed, failed, omitted, unresolved, unreadable, inputs }) {
  return completed + failed + omitted + (unresolved ?? 0) + unreadable + inputs;
}
