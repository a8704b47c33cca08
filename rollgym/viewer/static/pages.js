// A long list that is fetched in pages when their rows come into view.
//
// Rows that are not loaded yet are null. Pages that are requested again keep their old rows until the
// new ones arrive. Only the latest pages are kept, and only requests for visible pages continue.

import { get } from "./api.js";

const PAGE = 100;
const MOST_PAGES = 80;
const REST = 70; // ms: how long scrolling must pause before pages are requested
const SEARCH_PAUSE = 700;

export class Pages {
  // `rowsOf(answer)` returns the rows of a response; `changed({pages, total, search, answer})` is
  // called after each response, `failed(error)` after an error.
  constructor({ path, params, rowsOf, changed, failed }) {
    this.path = path;
    this.params = params;
    this.rowsOf = rowsOf;
    this.changed = changed;
    this.failed = failed;
    this.pages = new Map();
    this.stale = new Set();
    this.asked = new Map(); // page → AbortController
    this.total = null;
    this.wanted = [0, 1];
    this.ended = false;
  }

  row(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE] ?? null;
  }

  // The index of the first loaded row that passes a test; null if there is none.
  indexOf(test) {
    for (const [page, rows] of this.pages) {
      const at = rows.findIndex(test);
      if (at >= 0) return page * PAGE + at;
    }
    return null;
  }

  // Sets the visible rows.
  want(first, end) {
    this.wanted = [first, end];
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#ask(), this.total === null ? 0 : REST);
  }

  // Requests all visible pages again; the present rows stay until then.
  refresh() {
    this.stale = new Set(this.pages.keys());
    const [first, end] = this.#wantedPages();
    for (const page of [...this.stale]) {
      if (page < first || page >= end) {
        this.pages.delete(page);
        this.stale.delete(page);
      }
    }
    for (const control of this.asked.values()) control.abort();
    this.asked.clear();
    return this.#ask();
  }

  // Adds rows after the last one.
  grow(total) {
    const last = Math.floor(this.total / PAGE);
    this.total = total;
    if (this.pages.has(last)) this.stale.add(last);
    this.#ask();
  }

  destroy() {
    this.ended = true;
    clearTimeout(this.timer);
    clearTimeout(this.searching);
    for (const control of this.asked.values()) control.abort();
  }

  #wantedPages() {
    const [first, end] = this.wanted;
    return [Math.floor(first / PAGE), Math.max(Math.floor(first / PAGE) + 1, Math.ceil(end / PAGE))];
  }

  #ask() {
    const [first, end] = this.#wantedPages();
    for (const [page, control] of [...this.asked]) {
      if (page < first || page >= end) {
        control.abort();
        this.asked.delete(page);
      }
    }
    const pending = [];
    for (let page = first; page < end; page++) {
      const there = this.pages.has(page) && !this.stale.has(page);
      const beyond = this.total !== null && page > 0 && page * PAGE >= this.total;
      if (!there && !beyond && !this.asked.has(page)) pending.push(this.#load(page));
    }
    return Promise.all(pending);
  }

  async #load(page) {
    const control = new AbortController();
    this.asked.set(page, control);
    const params = new URLSearchParams(this.params);
    params.set("offset", page * PAGE);
    params.set("limit", PAGE);
    try {
      const answer = await get(this.path, params, { signal: control.signal });
      if (!control.signal.aborted && !this.ended) this.#take(page, answer);
    } catch (error) {
      if (!control.signal.aborted && !this.ended) this.failed(error);
    } finally {
      if (this.asked.get(page) === control) this.asked.delete(page);
    }
  }

  #take(page, answer) {
    this.pages.delete(page); // inserted again as the latest
    this.pages.set(page, this.rowsOf(answer));
    this.stale.delete(page);
    this.total = answer.total;
    for (const old of this.pages.keys()) {
      if (this.pages.size <= MOST_PAGES) break;
      this.pages.delete(old);
    }
    this.changed({ page, total: answer.total, search: answer.search ?? null, answer });
    clearTimeout(this.searching);
    if (answer.search && !answer.search.done) {
      this.searching = setTimeout(() => this.refresh(), SEARCH_PAUSE);
    }
  }
}

// Turns and steps, fetched a portion at a time when one of them is needed.

const KEPT = 16;

export class Portions {
  // `load(from, count)` returns a promise of items; `loaded(items)` is called for each portion.
  constructor({ total, size, load, loaded = () => {} }) {
    this.total = total;
    this.size = size;
    this.load = load;
    this.loaded = loaded;
    this.portions = new Map(); // number → items or a promise of them; the last used one is last
  }

  // An item, or a promise of it. A portion that failed is requested again next time.
  get(index) {
    const number = Math.floor(index / this.size);
    const place = index % this.size;
    const portion = this.portions.get(number) ?? this.#fetch(number);
    this.#touch(number, portion);
    return Array.isArray(portion) ? portion[place] : portion.then((items) => items[place]);
  }

  #fetch(number) {
    const from = number * this.size;
    return this.load(from, Math.min(this.size, this.total - from)).then(
      (items) => {
        if (this.portions.has(number)) this.portions.set(number, items);
        this.loaded(items);
        return items;
      },
      (error) => {
        this.portions.delete(number);
        throw error;
      },
    );
  }

  #touch(number, portion) {
    this.portions.delete(number);
    this.portions.set(number, portion);
    for (const oldest of this.portions.keys()) {
      if (this.portions.size <= KEPT) break;
      this.portions.delete(oldest);
    }
  }
}
