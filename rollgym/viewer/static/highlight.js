// Colours code: splits a text into tokens and gives each a class.
//
// One sticky expression per language; every alternative either matches at once or not at all, and
// an open string or comment reaches to its line's or the text's end, so that any text is read once
// from left to right. The rest is plain text.

import { h } from "./dom.js";

const LONGEST = 60_000;

const DOUBLE = String.raw`"(?:[^"\\\n]|\\.)*"?`;
const SINGLE = String.raw`'(?:[^'\\\n]|\\.)*'?`;
const NUMBER = String.raw`\b(?:0[xX][\da-fA-F_]+|0[bBoO][\d_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\b`;
const WORD = String.raw`[A-Za-z_$][\w$]*`;

const words = (text) => new Set(text.split(" "));

const LANGUAGES = {
  json: {
    tokens: {
      key: String.raw`"(?:[^"\\\n]|\\.)*"(?=\s{0,20}:)`,
      string: DOUBLE,
      number: `-?${NUMBER}`,
      word: WORD,
    },
    literals: words("true false null NaN Infinity"),
  },
  python: {
    tokens: {
      comment: "#[^\\n]*",
      string: String.raw`[rRbBfFuU]{0,2}(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|${DOUBLE}|${SINGLE})`,
      meta: String.raw`@[\w.]+`,
      number: NUMBER,
      word: WORD,
    },
    keywords: words(
      "and as assert async await break case class continue def del elif else except finally for from " +
        "global if import in is lambda match nonlocal not or pass raise return try while with yield",
    ),
    literals: words("True False None self cls"),
  },
  javascript: {
    tokens: {
      comment: String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`,
      string: "`(?:[^`\\\\]|\\\\[\\s\\S])*`?|" + DOUBLE + "|" + SINGLE,
      number: NUMBER,
      word: WORD,
    },
    keywords: words(
      "abstract as async await break case catch class const continue default delete do else enum " +
        "export extends finally for from function get if implements import in instanceof interface " +
        "let new of private protected public readonly return set static switch throw try type typeof " +
        "var void while with yield",
    ),
    literals: words("true false null undefined this super NaN Infinity"),
  },
  bash: {
    tokens: {
      comment: String.raw`(?<![^\s;])#[^\n]*`,
      string: String.raw`"(?:[^"\\]|\\[\s\S])*"?|'[^']*'?`,
      key: String.raw`\$(?:\w+|\{[^}\n]{0,200}\}|[?#@*!$-])`,
      meta: String.raw`(?<=\s)--?[A-Za-z][\w-]*`,
      number: NUMBER,
      word: String.raw`[A-Za-z_][\w-]*`,
    },
    keywords: words(
      "if then elif else fi for while until do done case esac in function return local export " +
        "declare readonly unset set source exit break continue trap shift eval exec",
    ),
    literals: words("true false"),
  },
  html: {
    tokens: {
      comment: String.raw`<!--[\s\S]*?(?:-->|$)`,
      keyword: String.raw`<\/?[A-Za-z][\w:-]*|\/?>`,
      key: String.raw`\b[A-Za-z_:@][\w:.-]*(?=\s{0,20}=\s{0,20}["'])`,
      string: String.raw`(?<==\s{0,20})(?:"[^"]*"?|'[^']*'?)`,
      literal: String.raw`&#?\w{1,31};`,
    },
  },
  generic: {
    tokens: {
      comment: String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|(?<![^\s])(?:#|--)\s[^\n]*`,
      string: `${DOUBLE}|${SINGLE}`,
      number: NUMBER,
      word: WORD,
    },
    keywords: words(
      "and as async await bool break case catch char class const continue def default defer delete " +
        "do double else enum export extends float fn for from func function go if impl import in int " +
        "interface let long match mod mut namespace new not or package private pub public return " +
        "static string struct switch throw trait try type typedef union unsigned use using var void " +
        "while with select SELECT FROM WHERE INSERT INTO UPDATE SET DELETE JOIN LEFT INNER ON GROUP " +
        "ORDER BY LIMIT CREATE TABLE VALUES AND OR NOT AS",
    ),
    literals: words("true false null nil None True False self this NULL"),
  },
};

const NAMES = {
  __proto__: null,
  json: "json", jsonl: "json", json5: "json",
  python: "python", py: "python", python3: "python", pycon: "python",
  javascript: "javascript", js: "javascript", jsx: "javascript", mjs: "javascript",
  typescript: "javascript", ts: "javascript", tsx: "javascript",
  bash: "bash", sh: "bash", shell: "bash", zsh: "bash", console: "bash",
  html: "html", xml: "html", svg: "html", vue: "html",
};
const PLAIN = words("text txt plain plaintext output none");

// The class that a token's kind, or a word, has; "" for plain.
function kindOf(language, kind, token) {
  if (kind !== "word") return kind;
  if (language.keywords?.has(token)) return "keyword";
  return language.literals?.has(token) ? "literal" : "";
}

function expression(language) {
  const alternatives = Object.entries(language.tokens).map(([kind, body]) => `(?<${kind}>${body})`);
  return new RegExp(alternatives.join("|"), "g");
}

// The nodes of some code: strings, and spans with the class `tok-…`.
// An unknown language uses the rules that most languages share.
export function highlight(code, name = "") {
  const lower = name.toLowerCase();
  if (code.length > LONGEST || PLAIN.has(lower)) return [code];
  const language = LANGUAGES[NAMES[lower] ?? (!lower && looksLikeJson(code) ? "json" : "generic")];
  language.expression ??= expression(language);
  const nodes = [];
  let plain = 0;
  for (const match of code.matchAll(language.expression)) {
    const token = match[0];
    const kind = Object.keys(match.groups).find((each) => match.groups[each] !== undefined);
    const className = token && kindOf(language, kind, token);
    if (!className) continue;
    if (match.index > plain) nodes.push(code.slice(plain, match.index));
    nodes.push(h("span", { class: `tok-${className}` }, token));
    plain = match.index + token.length;
  }
  if (plain < code.length) nodes.push(code.slice(plain));
  return nodes;
}

function looksLikeJson(code) {
  return /^\s{0,100}[[{]/.test(code);
}
