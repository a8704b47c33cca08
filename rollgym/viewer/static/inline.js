// The inside of a line of Markdown: emphasis, code, maths, links as words.
//
// One pass from left to right over a text whose special places are looked up in lists made
// beforehand, so that the time is linear in the length of any text. Open emphasis is kept on a stack;
// marks that are never closed become plain characters again. Links and pictures are not links here:
// their address is shown beside their text.

import { h } from "./dom.js";
import { formula } from "./maths.js";

const DEEPEST = 12;
const LONGEST_FORMULA = 4_000;
const LONGEST_ADDRESS = 2_000;
const SPECIAL = /[\\`*_~$[\]!\n]/g;
const ESCAPABLE = /[!-/:-@[-`{-~]/;
const ELEMENTS = { "*": "em", _: "em", "**": "strong", __: "strong", "~~": "del" };

// The nodes of a text of some lines. Line breaks stay.
export function inline(source) {
  return new Inline(source).nodes();
}

class Inline {
  constructor(source) {
    this.source = source;
    this.at = 0;
    // The open emphases, the innermost last. The first is the text itself.
    this.open = [{ mark: "", nodes: [] }];
    this.fences = null;
    this.sought = new Map();
  }

  nodes() {
    const { source } = this;
    while (this.at < source.length) {
      SPECIAL.lastIndex = this.at;
      const found = SPECIAL.exec(source)?.index ?? source.length;
      if (found > this.at) this.write(source.slice(this.at, found));
      this.at = found;
      if (found < source.length) this.special(source[found]);
    }
    while (this.open.length > 1) this.abandon();
    return this.open[0].nodes;
  }

  write(node) {
    this.open.at(-1).nodes.push(node);
  }

  // Writes this many characters as they are.
  literal(length) {
    this.write(this.source.slice(this.at, this.at + length));
    this.at += length;
  }

  special(character) {
    switch (character) {
      case "\n":
        this.write(h("br"));
        this.at += 1;
        break;
      case "\\":
        this.backslash();
        break;
      case "`":
        this.code();
        break;
      case "$":
        this.dollar();
        break;
      case "[":
      case "]":
      case "!":
        this.bracket(character);
        break;
      default:
        this.emphasis(character);
    }
  }

  // The next position of `what` at or after `from`; -1 if there is none. Each text is searched once.
  next(what, from) {
    const known = this.sought.get(what);
    if (known !== undefined && (known === -1 || known >= from)) return known;
    const found = this.source.indexOf(what, from);
    this.sought.set(what, found);
    return found;
  }

  backslash() {
    const following = this.source[this.at + 1] ?? "";
    if (following === "(" && this.formula("\\(", "\\)", false)) return;
    if (following === "[" && this.formula("\\[", "\\]", true)) return;
    if (following === "\n") {
      this.at += 1;
    } else if (ESCAPABLE.test(following)) {
      this.write(following);
      this.at += 2;
    } else {
      this.literal(1);
    }
  }

  // Writes the formula that starts here, if there is one and it ends.
  formula(start, end, display) {
    const from = this.at + start.length;
    const until = this.next(end, from);
    if (until < 0 || until - from > LONGEST_FORMULA) return false;
    const whole = this.source.slice(this.at, until + end.length);
    this.write(formula(this.source.slice(from, until), whole, display));
    this.at = until + end.length;
    return true;
  }

  // Dollar signs delimit a formula only if no space is inside of them: "$5 and $10" is money.
  dollar() {
    const { source, at } = this;
    if (source[at + 1] === "$") {
      if (!this.formula("$$", "$$", true)) this.literal(2);
      return;
    }
    const until = this.next("$", at + 1);
    const isFormula =
      until > at + 1 &&
      until - at < LONGEST_FORMULA &&
      !/[\w$]/.test(source[at - 1] ?? "") &&
      !/\s/.test(source[at + 1]) &&
      !/[\s\\]/.test(source[until - 1]) &&
      !/[\w$]/.test(source[until + 1] ?? "");
    if (!isFormula || !this.formula("$", "$", false)) this.literal(1);
  }

  code() {
    const length = this.fenceLength(this.at);
    const end = this.fenceAfter(this.at + length, length);
    if (end < 0) {
      this.literal(length);
      return;
    }
    let code = this.source.slice(this.at + length, end).replaceAll("\n", " ");
    // One space on each side only separates backticks.
    if (code.startsWith(" ") && code.endsWith(" ") && code.trim()) code = code.slice(1, -1);
    this.write(h("code", {}, code));
    this.at = end + length;
  }

  fenceLength(from) {
    let end = from;
    while (this.source[end] === "`") end += 1;
    return end - from;
  }

  // The position of the next run of exactly this many backticks; -1 if there is none.
  fenceAfter(from, length) {
    if (!this.fences) {
      this.fences = new Map();
      for (const { 0: run, index } of this.source.matchAll(/`+/g)) {
        if (!this.fences.has(run.length)) this.fences.set(run.length, []);
        this.fences.get(run.length).push(index);
      }
      for (const places of this.fences.values()) places.reverse();
    }
    const places = this.fences.get(length) ?? [];
    while (places.length && places.at(-1) < from) places.pop();
    return places.at(-1) ?? -1;
  }

  bracket(character) {
    const { source, at } = this;
    const isPicture = character === "!" && source[at + 1] === "[";
    if (character === "[" || isPicture) {
      const mark = isPicture ? "![" : "[";
      if (this.open.length <= DEEPEST) {
        this.open.push({ mark, nodes: [] });
        this.at += mark.length;
      } else {
        this.literal(mark.length);
      }
    } else if (character === "]") {
      this.closeBracket();
    } else {
      this.literal(1);
    }
  }

  closeBracket() {
    const depth = this.open.findLastIndex(({ mark }) => mark === "[" || mark === "![");
    const target = depth > 0 && this.source[this.at + 1] === "(" ? this.target() : null;
    if (depth > 0) while (this.open.length - 1 > depth) this.abandon();
    if (!target) {
      if (depth > 0) this.abandon();
      this.literal(1);
      return;
    }
    const { mark, nodes } = this.open.pop();
    this.write(mark === "[" ? linkWords(nodes, target.address) : pictureWords(nodes, target.address));
    this.at = target.end;
  }

  // The address in round brackets after the present "]".
  target() {
    const from = this.at + 2;
    const until = this.next(")", from);
    if (until < 0 || until - from > LONGEST_ADDRESS) return null;
    const [address, ...title] = this.source.slice(from, until).trim().split(/\s+/);
    if (title.length && !/^["'(]/.test(title[0])) return null;
    return { address: address.replace(/^<|>$/g, ""), end: until + 1 };
  }

  emphasis(character) {
    const { source, at } = this;
    let end = at;
    while (source[end] === character) end += 1;
    const before = source[at - 1] ?? " ";
    const after = source[end] ?? " ";
    let opens = !/\s/.test(after) && (!isPunctuation(after) || /\s/.test(before) || isPunctuation(before));
    let closes = !/\s/.test(before) && (!isPunctuation(before) || /\s/.test(after) || isPunctuation(after));
    // A product of numbers, not an emphasis.
    if (end === at + 1 && /[\d)]/.test(before) && /[\d(]/.test(after)) opens = closes = false;
    if (character === "_") [opens, closes] = [opens && !isWord(before), closes && !isWord(after)];
    let left = end - at;
    if (closes) left -= this.closeMarks(character, left);
    if (opens && left > 0) left -= this.openMarks(character, left);
    if (left > 0) this.write(character.repeat(left));
    this.at = end;
  }

  // Closes open marks of a character from the inside out; returns the number of characters used.
  closeMarks(character, length) {
    let used = 0;
    while (used < length) {
      const rest = length - used;
      const depth = this.open.findLastIndex(
        ({ mark }) => mark[0] === character && mark in ELEMENTS && mark.length <= rest,
      );
      if (depth <= 0 || this.open.slice(depth).some(({ mark }) => mark === "[" || mark === "![")) break;
      while (this.open.length - 1 > depth) this.abandon();
      const { mark, nodes } = this.open.pop();
      this.write(h(ELEMENTS[mark], {}, nodes));
      used += mark.length;
    }
    return used;
  }

  openMarks(character, length) {
    let used = 0;
    for (const mark of [character.repeat(2), character]) {
      if (!(mark in ELEMENTS) || length - used < mark.length || this.open.length > DEEPEST) continue;
      this.open.push({ mark, nodes: [] });
      used += mark.length;
    }
    return used;
  }

  // Turns the innermost open mark back into its characters.
  abandon() {
    const { mark, nodes } = this.open.pop();
    const outer = this.open.at(-1).nodes;
    outer.push(mark);
    for (const node of nodes) outer.push(node);
  }
}

function linkWords(nodes, address) {
  const same = nodes.length === 1 && nodes[0] === address;
  return [h("span", { class: "md-link" }, nodes), same ? null : addressWords(address)];
}

function pictureWords(nodes, address) {
  return [h("span", { class: "md-picture" }, "picture: ", nodes), addressWords(address)];
}

function addressWords(address) {
  return h("span", { class: "md-address" }, ` (${address})`);
}

function isPunctuation(character) {
  return /[!-/:-@[-`{-~\u2010-\u2027\u3001-\u303f]/.test(character);
}

function isWord(character) {
  return /[\p{L}\p{N}_]/u.test(character);
}
