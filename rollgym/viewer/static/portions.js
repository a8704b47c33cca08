// Turns and steps, fetched a portion at a time when one of them is wanted.

const KEPT = 16;

export class Portions {
  // `load(from, count)` gives a promise of so many items; `loaded(items)` is told of each portion.
  constructor({ total, size, load, loaded = () => {} }) {
    this.total = total;
    this.size = size;
    this.load = load;
    this.loaded = loaded;
    this.portions = new Map(); // number → items, or the promise of them; the latest used last
  }

  // An item, or a promise of it. A portion that could not be fetched is asked for again next time.
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
