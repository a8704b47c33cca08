// LaTeX commands that models write, as MathML. Commands with arguments read them from the formula.

import { math } from "./dom.js";
import {
  ACCENTS, BIG, bracketProps, BRACKETS, DROPPED, ENVIRONMENTS, fence, FONTS, FUNCTIONS, inAlphabet,
  INTEGRALS, LETTERS, OPERATORS, SILENT, SPACES, STRETCHED, table, UNDER, upright,
} from "./maths_symbols.js";
import { NotUnderstood } from "./maths_tokens.js";

const TEXTS = new Set(["text", "textrm", "textbf", "textit", "textsf", "texttt", "mbox", "hbox"]);
const UPRIGHT = new Set(["mathrm", "operatorname", "operatorname*", "mathop", "mathit", "mathnormal"]);
const FRACTIONS = new Set(["frac", "dfrac", "tfrac", "cfrac"]);
const BINOMIALS = new Set(["binom", "dbinom", "tbinom"]);

// The node of a command; null if it has no visible content.
export function command(formula, name) {
  if (Object.hasOwn(LETTERS, name)) return math("mi", {}, LETTERS[name]);
  if (Object.hasOwn(OPERATORS, name)) return math("mo", {}, OPERATORS[name]);
  if (Object.hasOwn(BIG, name)) return math("mo", { movablelimits: "true", largeop: "true" }, BIG[name]);
  if (Object.hasOwn(INTEGRALS, name)) return math("mo", { largeop: "true" }, INTEGRALS[name]);
  if (FUNCTIONS.has(name)) return upright(functionName(name));
  if (Object.hasOwn(SPACES, name)) return math("mspace", { width: SPACES[name] });
  if (SILENT.has(name)) return null;
  if (DROPPED.has(name)) return drop(formula);
  if (/^[{}|]$/.test(name)) return math("mo", bracketProps(name), name === "|" ? "‖" : name);
  if (/^[%$&#_]$/.test(name)) return upright(name);
  if (Object.hasOwn(BRACKETS, name)) return math("mo", { stretchy: "false" }, BRACKETS[name]);
  return construct(formula, name);
}

// A command that has arguments.
function construct(formula, name) {
  if (FRACTIONS.has(name)) return math("mfrac", {}, formula.argument(), formula.argument());
  if (BINOMIALS.has(name)) return binomial(formula);
  if (TEXTS.has(name)) return words(formula, name);
  if (UPRIGHT.has(name)) return upright(plainArgument(formula));
  if (Object.hasOwn(FONTS, name)) return upright(inAlphabet(plainArgument(formula), FONTS[name]));
  if (Object.hasOwn(ACCENTS, name)) return accent(formula, "mover", ACCENTS[name], name);
  if (Object.hasOwn(UNDER, name)) return accent(formula, "munder", UNDER[name], name);
  switch (name) {
    case "sqrt": {
      const degree = formula.optional();
      const inner = formula.argument();
      return degree ? math("mroot", {}, inner, degree) : math("msqrt", {}, inner);
    }
    case "left":
      return fenced(formula);
    case "begin":
      return environment(formula);
    case "boxed":
    case "fbox":
      return math("mrow", { class: "math-boxed" }, formula.argument());
    case "overset":
    case "stackrel": {
      const above = formula.argument();
      return math("mover", {}, formula.argument(), above);
    }
    case "underset": {
      const below = formula.argument();
      return math("munder", {}, formula.argument(), below);
    }
    case "xrightarrow":
    case "xleftarrow":
      return longArrow(formula, name === "xrightarrow" ? "→" : "←");
    case "substack":
      return substack(formula);
    case "not":
      return negated(formula);
    case "pmod":
      return math("mrow", {}, math("mo", {}, "("), upright("mod"),
        math("mspace", { width: "0.333em" }), formula.argument(), math("mo", {}, ")"));
    case "bmod":
      return math("mo", { lspace: "0.3em", rspace: "0.3em" }, "mod");
    case "right":
    case "end":
      throw new NotUnderstood(`a stray \\${name}`);
    default:
      return math("mtext", { class: "math-unknown" }, `\\${name}`);
  }
}

function words(formula, name) {
  return math("mtext", { class: name === "textbf" ? "math-bold" : null }, spaced(formula.verbatim()));
}

function drop(formula) {
  if (formula.peek() === "{") formula.verbatim();
  return null;
}

// The argument as text, where it is only letters, digits and the like.
function plainArgument(formula) {
  const text = formula.peek() === "{" ? formula.verbatim() : formula.take() ?? "";
  const spacedOut = text.trim().replace(/\\[,;: ]/g, " ");
  return spacedOut.replace(/\\([A-Za-z]+)/g, (written, name) => LETTERS[name] ?? written);
}

function binomial(formula) {
  const stack = math("mfrac", { linethickness: "0" }, formula.argument(), formula.argument());
  return math("mrow", {}, math("mo", {}, "("), stack, math("mo", {}, ")"));
}

function accent(formula, tag, mark, name) {
  const stretchy = STRETCHED.has(name) ? "true" : "false";
  const props = tag === "mover" ? { accent: "true" } : { accentunder: "true" };
  return math(tag, props, formula.argument(), math("mo", { stretchy }, mark));
}

function longArrow(formula, arrow) {
  const below = formula.optional();
  const above = formula.argument();
  const stretched = math("mo", { stretchy: "true" }, arrow);
  return below ? math("munderover", {}, stretched, below, above) : math("mover", {}, stretched, above);
}

function substack(formula) {
  formula.expect("{");
  const rows = formula.rows((token) => token === undefined || token === "}");
  formula.expect("}");
  return table(rows, "substack");
}

function negated(formula) {
  const node = formula.atom();
  if (node) node.textContent += "\u0338";
  return node;
}

function bracket(formula) {
  const token = formula.take();
  if (token === undefined) throw new NotUnderstood("no bracket");
  const name = token === "\\|" ? token : token.replace(/^\\/, "");
  if (!Object.hasOwn(BRACKETS, name)) throw new NotUnderstood(`no bracket: ${token}`);
  return BRACKETS[name];
}

function fenced(formula) {
  const start = bracket(formula);
  const inner = formula.row((token) => token === "\\right");
  formula.at += 1;
  return fence(start, inner, bracket(formula));
}

function environment(formula) {
  const name = formula.verbatim().replace(/\*$/, "");
  const brackets = ENVIRONMENTS[name];
  if (!brackets) throw new NotUnderstood(`the environment ${name}`);
  if (name === "array" || name === "alignedat") formula.verbatim();
  const rows = formula.deeper(() => formula.rows((token) => token === undefined || token === "\\end"));
  formula.expect("\\end");
  formula.verbatim();
  const layout = name.includes("align") || name === "split" || name === "eqnarray" ? "align" : name;
  return fence(brackets[0], table(rows, layout.endsWith("cases") ? "cases" : layout), brackets[1]);
}

function functionName(name) {
  return { argmax: "arg max", argmin: "arg min", limsup: "lim sup", liminf: "lim inf" }[name] ?? name;
}

// MathML drops spaces at the ends of a text.
function spaced(text) {
  return text.replace(/^\s+|\s+$/g, "\u00a0");
}
