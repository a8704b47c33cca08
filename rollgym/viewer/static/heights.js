// Heights of items with their running sums, in a tree of partial sums: setting one and finding the
// item at an offset both take log(n) steps.
export class Heights {
  constructor(total, estimate, known = null) {
    this.total = total;
    this.estimate = estimate;
    this.values = new Float64Array(total);
    this.tree = new Float64Array(total + 1);
    for (let index = 0; index < total; index++) {
      this.values[index] = known && index < known.length ? known[index] : estimate(index);
    }
    for (let place = 1; place <= total; place++) {
      this.tree[place] += this.values[place - 1];
      const parent = place + (place & -place);
      if (parent <= total) this.tree[parent] += this.tree[place];
    }
  }

  resized(total) {
    return total === this.total ? this : new Heights(total, this.estimate, this.values);
  }

  of(index) {
    return this.values[index] ?? 0;
  }

  set(index, height) {
    const change = height - this.values[index];
    if (Math.abs(change) < 0.01) return;
    this.values[index] = height;
    for (let place = index + 1; place <= this.total; place += place & -place) {
      this.tree[place] += change;
    }
  }

  before(index) {
    let sum = 0;
    for (let place = index; place > 0; place -= place & -place) sum += this.tree[place];
    return sum;
  }

  sum() {
    return this.before(this.total);
  }

  // The item at an offset; the last one beyond the end.
  at(offset) {
    let place = 0;
    let rest = offset;
    for (let step = 2 ** Math.floor(Math.log2(Math.max(1, this.total))); step >= 1; step /= 2) {
      if (place + step <= this.total && this.tree[place + step] <= rest) {
        place += step;
        rest -= this.tree[place];
      }
    }
    return Math.max(0, Math.min(place, this.total - 1));
  }
}
