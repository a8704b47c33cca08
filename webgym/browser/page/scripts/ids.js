// Numbers of elements: stable for the life of the document, and never reused.

const numbers = new WeakMap();
const numbered = new Map();
let lastNumber = 0;
let sweepAt = 4096;

function numberOf(element) {
  let number = numbers.get(element);
  if (number === undefined) {
    number = ++lastNumber;
    numbers.set(element, number);
    numbered.set(number, new WeakRef(element));
    if (numbered.size > sweepAt) dropCollected();
  }
  return number;
}

function elementNumbered(number) {
  return numbered.get(number)?.deref() ?? null;
}

function dropCollected() {
  for (const [number, reference] of numbered) if (!reference.deref()) numbered.delete(number);
  sweepAt = Math.max(4096, 2 * numbered.size);
}
