// Formulas: the part of LaTeX that models write, as MathML, which the browser lays out itself.
//
// The source is split into tokens and read by recursive descent, no deeper than a bound. A command
// that is not known stays in its place as it was written; a formula whose brackets do not match, or
// that is too long or too deep, stays as its source.

import { h, math } from "./dom.js";
import { command } from "./maths_commands.js";
import { BIG, bracketProps, LIMITS, table } from "./maths_symbols.js";
import { NotUnderstood, Tokens } from "./maths_tokens.js";

const LONGEST = 4_000;
const BRACES = new Set(["overbrace", "underbrace", "operatorname*"]);
const STRAY = new Set(["}", "&", "\\\\", "$"]);

// The element of a formula: MathML, or `whole`, the source with its delimiters, if it is not
// supported. `display`: on a separate line.
export function formula(source, whole, display) {
  const body = source.length <= LONGEST ? understood(source) : null;
  if (!body) return h("code", { class: "math-source" }, whole);
  return math("math", { display: display ? "block" : "inline", "aria-label": source.trim() }, body);
}

function understood(source) {
  try {
    return new Formula(source).whole();
  } catch (error) {
    if (error instanceof NotUnderstood) return null;
    throw error;
  }
}

class Formula extends Tokens {
  whole() {
    const rows = this.rows((token) => token === undefined);
    return rows.length === 1 && rows[0].length === 1 ? rows[0][0] : table(rows, "align");
  }

  // Rows of cells, up to the token for which `ends` holds (which stays).
  rows(ends) {
    const rows = [[]];
    const endsCell = (token) => ends(token) || token === "&" || token === "\\\\";
    for (;;) {
      rows.at(-1).push(this.row(endsCell));
      const token = this.peek();
      if (ends(token)) break;
      this.at += 1;
      if (token === "\\\\") {
        this.optional();
        rows.push([]);
      }
    }
    // A line break at the very end does not start a row.
    if (rows.length > 1 && rows.at(-1).length === 1 && !rows.at(-1)[0].hasChildNodes()) rows.pop();
    return rows;
  }

  row(ends) {
    return this.deeper(() => {
      const nodes = [];
      while (!ends(this.peek())) {
        if (this.peek() === undefined) throw new NotUnderstood("ends too early");
        const node = this.scripted();
        if (node) nodes.push(node);
      }
      return math("mrow", {}, nodes);
    });
  }

  // A base with its subscript and superscript.
  scripted() {
    const limits = this.hasLimits(this.peek());
    const base = this.atom();
    let below = null;
    let above = null;
    for (;;) {
      const token = this.peek();
      if (token === "_" && !below) {
        this.at += 1;
        below = this.argument();
      } else if (token === "^" && !above) {
        this.at += 1;
        above = this.argument();
      } else if (token === "'" && !above) {
        above = this.primes();
      } else if (token === "\\limits" || token === "\\nolimits") {
        this.at += 1;
      } else {
        break;
      }
    }
    if (!below && !above) return base;
    const start = base ?? math("mrow");
    const [under, over, both] = limits ? ["munder", "mover", "munderover"] : ["msub", "msup", "msubsup"];
    if (below && above) return math(both, {}, start, below, above);
    return below ? math(under, {}, start, below) : math(over, {}, start, above);
  }

  hasLimits(token) {
    const name = token?.startsWith("\\") ? token.slice(1) : "";
    return name in BIG || LIMITS.has(name) || BRACES.has(name);
  }

  primes() {
    let primes = "";
    while (this.peek() === "'") {
      primes += "′";
      this.at += 1;
    }
    if (this.peek() !== "^") return math("mo", {}, primes);
    this.at += 1;
    return math("mrow", {}, math("mo", {}, primes), this.argument());
  }

  // An argument: a group in braces, or one token.
  argument() {
    return this.deeper(() => {
      const token = this.peek();
      if (token === undefined || token === "}" || token === "&") throw new NotUnderstood("no argument");
      return this.atom() ?? math("mrow");
    });
  }

  // The row in square brackets here; null if there are none.
  optional() {
    if (this.peek() !== "[") return null;
    const before = this.at;
    this.at += 1;
    if (!this.tokens.slice(this.at, this.at + 200).includes("]")) {
      this.at = before;
      return null;
    }
    const row = this.row((token) => token === "]");
    this.at += 1;
    return row;
  }

  atom() {
    const token = this.take();
    if (token === "{") {
      const row = this.row((next) => next === "}");
      this.at += 1;
      return row;
    }
    if (STRAY.has(token)) throw new NotUnderstood(`a stray ${token}`);
    if (token === "^" || token === "_") {
      this.at -= 1;
      return null;
    }
    if (token.startsWith("\\")) return command(this, token.slice(1));
    if (/\d/.test(token)) return this.number(token);
    if (token === "~") return math("mspace", { width: "0.333em" });
    if (token === "'") return math("mo", {}, "′");
    if (/\p{L}/u.test(token)) return math("mi", {}, token);
    return math("mo", bracketProps(token), token === "-" ? "−" : token === "*" ? "∗" : token);
  }

  number(first) {
    let digits = first;
    while (/^[\d.]$/.test(this.tokens[this.at] ?? "")) {
      if (this.tokens[this.at] === "." && !/\d/.test(this.tokens[this.at + 1] ?? "")) break;
      digits += this.tokens[this.at];
      this.at += 1;
    }
    return math("mn", {}, digits);
  }
}
