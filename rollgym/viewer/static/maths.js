// Formulas: the part of LaTeX that models write, as MathML, which the browser lays out itself.
//
// The source is split into tokens and read by recursive descent, no deeper than a bound. A command
// that is not known stays in its place as it was written; a formula whose brackets do not match, or
// that is too long or too deep, stays as its source.

import { h, math } from "./dom.js";
import {
  ACCENTS, BIG, BRACKETS, DROPPED, ENVIRONMENTS, FONTS, FUNCTIONS, INTEGRALS, LETTERS, LIMITS,
  OPERATORS, SILENT, SPACES, STRETCHED, UNDER, inAlphabet,
} from "./maths_symbols.js";

const LONGEST = 4_000;
const DEEPEST = 40;
const TOKEN = /\\(?:[A-Za-z]+\*?|[\s\S])|\s+|%[^\n]*|[\s\S]/gu;
const TEXTS = new Set(["text", "textrm", "textbf", "textit", "textsf", "texttt", "mbox", "hbox"]);
const UPRIGHT = new Set(["mathrm", "operatorname", "operatorname*", "mathop", "mathit", "mathnormal"]);
const BRACES = new Set(["overbrace", "underbrace", "operatorname*"]);
const STRAY = new Set(["}", "&", "\\\\", "$"]);
const FRACTIONS = new Set(["frac", "dfrac", "tfrac", "cfrac"]);
const BINOMIALS = new Set(["binom", "dbinom", "tbinom"]);

class NotUnderstood extends Error {}

// The element of a formula: MathML, or `whole`, the source with its delimiters, where it is not
// understood. `display`: on a line of its own.
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

class Formula {
  constructor(source) {
    this.tokens = source.match(TOKEN)?.filter((token) => !token.startsWith("%")) ?? [];
    this.at = 0;
    this.depth = 0;
  }

  whole() {
    const rows = this.rows((token) => token === undefined);
    return rows.length === 1 && rows[0].length === 1 ? rows[0][0] : table(rows, "align");
  }

  // The next token that is not a space, without taking it.
  peek() {
    while (this.tokens[this.at]?.trim() === "") this.at += 1;
    return this.tokens[this.at];
  }

  take() {
    const token = this.peek();
    this.at += 1;
    return token;
  }

  expect(token) {
    if (this.take() !== token) throw new NotUnderstood(`no ${token}`);
  }

  deeper(read) {
    this.depth += 1;
    if (this.depth > DEEPEST) throw new NotUnderstood("too deep");
    const result = read();
    this.depth -= 1;
    return result;
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
    // A line break at the very end begins nothing.
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

  // Something with what stands below and above it.
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

  // An argument: a group in braces, or one thing.
  argument() {
    return this.deeper(() => {
      const token = this.peek();
      if (token === undefined || token === "}" || token === "&") throw new NotUnderstood("no argument");
      return this.atom() ?? math("mrow");
    });
  }

  // What is in square brackets here, as its row; null where there are none.
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

  // A group in braces, as it is written.
  verbatim() {
    this.expect("{");
    let text = "";
    for (let open = 1; ; this.at += 1) {
      const token = this.tokens[this.at];
      if (token === undefined) throw new NotUnderstood("no }");
      open += token === "{" ? 1 : token === "}" ? -1 : 0;
      if (open === 0) break;
      if (/^\\[{}%$&#_ ]$/.test(token)) text += token[1];
      else if (!/^[{}$]$/.test(token)) text += token;
    }
    this.at += 1;
    return text;
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
    if (token.startsWith("\\")) return this.command(token.slice(1));
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

  command(name) {
    if (Object.hasOwn(LETTERS, name)) return math("mi", {}, LETTERS[name]);
    if (Object.hasOwn(OPERATORS, name)) return math("mo", {}, OPERATORS[name]);
    if (Object.hasOwn(BIG, name)) return math("mo", { movablelimits: "true", largeop: "true" }, BIG[name]);
    if (Object.hasOwn(INTEGRALS, name)) return math("mo", { largeop: "true" }, INTEGRALS[name]);
    if (FUNCTIONS.has(name)) return upright(functionName(name));
    if (Object.hasOwn(SPACES, name)) return math("mspace", { width: SPACES[name] });
    if (SILENT.has(name)) return null;
    if (DROPPED.has(name)) return this.drop();
    if (/^[{}|]$/.test(name)) return math("mo", bracketProps(name), name === "|" ? "‖" : name);
    if (/^[%$&#_]$/.test(name)) return upright(name);
    if (Object.hasOwn(BRACKETS, name)) return math("mo", { stretchy: "false" }, BRACKETS[name]);
    return this.construct(name);
  }

  // A command that has arguments.
  construct(name) {
    if (FRACTIONS.has(name)) return math("mfrac", {}, this.argument(), this.argument());
    if (BINOMIALS.has(name)) return this.binomial();
    if (TEXTS.has(name)) return this.words(name);
    if (UPRIGHT.has(name)) return upright(this.plainArgument());
    if (Object.hasOwn(FONTS, name)) return upright(inAlphabet(this.plainArgument(), FONTS[name]));
    if (Object.hasOwn(ACCENTS, name)) return this.accent("mover", ACCENTS[name], name);
    if (Object.hasOwn(UNDER, name)) return this.accent("munder", UNDER[name], name);
    switch (name) {
      case "sqrt": {
        const degree = this.optional();
        const inner = this.argument();
        return degree ? math("mroot", {}, inner, degree) : math("msqrt", {}, inner);
      }
      case "left":
        return this.fenced();
      case "begin":
        return this.environment();
      case "boxed":
      case "fbox":
        return math("mrow", { class: "math-boxed" }, this.argument());
      case "overset":
      case "stackrel": {
        const above = this.argument();
        return math("mover", {}, this.argument(), above);
      }
      case "underset": {
        const below = this.argument();
        return math("munder", {}, this.argument(), below);
      }
      case "xrightarrow":
      case "xleftarrow":
        return this.longArrow(name === "xrightarrow" ? "→" : "←");
      case "substack":
        return this.substack();
      case "not":
        return this.negated();
      case "pmod":
        return math("mrow", {}, math("mo", {}, "("), upright("mod"),
          math("mspace", { width: "0.333em" }), this.argument(), math("mo", {}, ")"));
      case "bmod":
        return math("mo", { lspace: "0.3em", rspace: "0.3em" }, "mod");
      case "right":
      case "end":
        throw new NotUnderstood(`a stray \\${name}`);
      default:
        return math("mtext", { class: "math-unknown" }, `\\${name}`);
    }
  }

  words(name) {
    return math("mtext", { class: name === "textbf" ? "math-bold" : null }, spaced(this.verbatim()));
  }

  drop() {
    if (this.peek() === "{") this.verbatim();
    return null;
  }

  // The argument as text, where it is only letters, digits and the like.
  plainArgument() {
    const text = this.peek() === "{" ? this.verbatim() : this.take() ?? "";
    const spacedOut = text.trim().replace(/\\[,;: ]/g, " ");
    return spacedOut.replace(/\\([A-Za-z]+)/g, (command, name) => LETTERS[name] ?? command);
  }

  binomial() {
    const stack = math("mfrac", { linethickness: "0" }, this.argument(), this.argument());
    return math("mrow", {}, math("mo", {}, "("), stack, math("mo", {}, ")"));
  }

  accent(tag, mark, name) {
    const stretchy = STRETCHED.has(name) ? "true" : "false";
    const props = tag === "mover" ? { accent: "true" } : { accentunder: "true" };
    return math(tag, props, this.argument(), math("mo", { stretchy }, mark));
  }

  longArrow(arrow) {
    const below = this.optional();
    const above = this.argument();
    const stretched = math("mo", { stretchy: "true" }, arrow);
    return below ? math("munderover", {}, stretched, below, above) : math("mover", {}, stretched, above);
  }

  substack() {
    this.expect("{");
    const rows = this.rows((token) => token === undefined || token === "}");
    this.expect("}");
    return table(rows, "substack");
  }

  negated() {
    const node = this.atom();
    if (node) node.textContent += "\u0338";
    return node;
  }

  bracket() {
    const token = this.take();
    if (token === undefined) throw new NotUnderstood("no bracket");
    const name = token === "\\|" ? token : token.replace(/^\\/, "");
    if (!Object.hasOwn(BRACKETS, name)) throw new NotUnderstood(`no bracket: ${token}`);
    return BRACKETS[name];
  }

  fenced() {
    const start = this.bracket();
    const inner = this.row((token) => token === "\\right");
    this.at += 1;
    return fence(start, inner, this.bracket());
  }

  environment() {
    const name = this.verbatim().replace(/\*$/, "");
    const brackets = ENVIRONMENTS[name];
    if (!brackets) throw new NotUnderstood(`the environment ${name}`);
    if (name === "array" || name === "alignedat") this.verbatim();
    const rows = this.deeper(() => this.rows((token) => token === undefined || token === "\\end"));
    this.expect("\\end");
    this.verbatim();
    const layout = name.includes("align") || name === "split" || name === "eqnarray" ? "align" : name;
    return fence(brackets[0], table(rows, layout.endsWith("cases") ? "cases" : layout), brackets[1]);
  }
}

function upright(text) {
  return math("mi", { mathvariant: "normal" }, text);
}

function table(rows, layout) {
  return math("mtable", { class: `math-${layout}`, displaystyle: layout === "align" ? "true" : null },
    rows.map((row) => math("mtr", {}, row.map((cell) => math("mtd", {}, cell)))));
}

function fence(start, inner, end) {
  if (!start && !end) return inner;
  const bracket = (text) => (text ? math("mo", { fence: "true", stretchy: "true" }, text) : null);
  return math("mrow", {}, bracket(start), inner, bracket(end));
}

// Brackets that nobody asked to grow stay as they are.
function bracketProps(token) {
  return /[()[\]{}|/]/.test(token) ? { stretchy: "false" } : {};
}

function functionName(name) {
  return { argmax: "arg max", argmin: "arg min", limsup: "lim sup", liminf: "lim inf" }[name] ?? name;
}

// MathML drops spaces at the ends of a text.
function spaced(text) {
  return text.replace(/^\s+|\s+$/g, "\u00a0");
}
