// Markdown as elements: headings, lists, quotes, tables, code, maths, rules and paragraphs.
//
// A small parser for the Markdown that models write. It reads the lines once for every level of nesting,
// which is bounded, so its time is linear in the length of any text. It creates elements through `h`
// only: HTML in a text is shown as it is written, and links are not clickable.

import { h } from "./dom.js";
import { highlight } from "./highlight.js";
import { inline } from "./inline.js";
import { formula } from "./maths.js";

export const LONGEST_MARKDOWN = 100_000;
const DEEPEST = 8;
const MOST_COLUMNS = 64;

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,3}[.)])( +|$)/;
const INDENTED = /^(?: {4}|\t)/;
const ENVIRONMENT = /^ {0,3}\\begin\{(equation|align|gather|multline|eqnarray)(\*?)\}/;

// The rendered text. A text that is too long is shown as it is.
export function markdown(source) {
  if (source.length > LONGEST_MARKDOWN) return h("div", { class: "plain" }, source);
  const lines = source.replaceAll("\r\n", "\n").split("\n");
  return h("div", { class: "md" }, new Blocks(lines, 0).nodes());
}

class Blocks {
  constructor(lines, depth) {
    this.lines = lines;
    this.depth = depth;
    this.at = 0;
    this.result = [];
    // Results of searches: {from, until, found}. All lines in between have the same result.
    this.sought = new Map();
  }

  nodes() {
    while (this.at < this.lines.length) {
      const line = this.lines[this.at];
      if (!line.trim()) this.at += 1;
      else this.block(line);
    }
    return this.result;
  }

  block(line) {
    if (this.fence(line) || this.display(line) || this.heading(line) || this.rule(line)) return;
    if (this.depth < DEEPEST && (this.quote(line) || this.list(line))) return;
    if (this.table(line) || this.indented(line)) return;
    this.paragraph();
  }

  // The number of the first line at or after `from` for which `ends` holds; -1 for none, or none
  // before a line for which `stops` holds.
  find(what, from, ends, stops = () => false) {
    const known = this.sought.get(what);
    if (known && from >= known.from && from <= known.until) return known.found;
    let until = from;
    while (until < this.lines.length && !ends(this.lines[until]) && !stops(this.lines[until])) until += 1;
    const found = until < this.lines.length && ends(this.lines[until]) ? until : -1;
    this.sought.set(what, { from, until, found });
    return found;
  }

  fence(line) {
    const match = FENCE.exec(line);
    if (!match) return false;
    const [, mark, info] = match;
    const indent = line.indexOf(mark);
    const closing = (each) => {
      const end = each.trim();
      return end.length >= mark.length && end === mark[0].repeat(end.length);
    };
    const found = this.find(mark, this.at + 1, closing);
    const end = found < 0 ? this.lines.length : found;
    const body = this.lines.slice(this.at + 1, end).map((each) => dedent(each, indent));
    const language = info.trim().split(/[\s{]/)[0];
    this.result.push(codeBlock(body.join("\n"), language));
    this.at = end + 1;
    return true;
  }

  // A formula on separate lines: $$…$$, \[…\], or an environment.
  display(line) {
    const trimmed = line.trimStart();
    const environment = ENVIRONMENT.exec(line);
    const [start, end] = environment
      ? ["", `\\end{${environment[1]}${environment[2]}}`]
      : trimmed.startsWith("$$") ? ["$$", "$$"] : ["\\[", "\\]"];
    if (!environment && !trimmed.startsWith(start)) return false;
    const within = trimmed.indexOf(end, start.length) >= 0;
    const last = within
      ? this.at
      : this.find(end, this.at + 1, (each) => each.includes(end), (each) => !each.trim());
    if (last < 0) return false;
    const ending = within ? trimmed.slice(start.length) : this.lines[last];
    const rest = ending.slice(ending.indexOf(end) + end.length).trim();
    // Text follows on the same line: it is a formula in a sentence.
    if (rest.length > 1) return false;
    const whole = [trimmed, ...this.lines.slice(this.at + 1, last + 1)].join("\n");
    const until = whole.indexOf(end, start.length);
    const source = whole.slice(start.length, environment ? until + end.length : until);
    this.result.push(h("div", { class: "md-display" }, formula(source, whole, true), rest));
    this.at = last + 1;
    return true;
  }

  heading(line) {
    const match = HEADING.exec(line);
    if (!match) return false;
    const level = match[1].length;
    const words = (match[2] ?? "").trim().replace(/(?:^|\s)#+$/, "");
    // The page itself uses the upper levels of headings.
    this.result.push(h(`h${Math.min(level + 3, 6)}`, { class: `md-h${level}` }, inline(words)));
    this.at += 1;
    return true;
  }

  rule(line) {
    if (!RULE.test(line)) return false;
    this.result.push(h("hr"));
    this.at += 1;
    return true;
  }

  quote(line) {
    if (!QUOTE.test(line)) return false;
    const inner = [];
    while (this.at < this.lines.length && this.lines[this.at].trim()) {
      const each = this.lines[this.at];
      if (!QUOTE.test(each) && startsBlock(each)) break;
      inner.push(each.replace(QUOTE, ""));
      this.at += 1;
    }
    this.result.push(h("blockquote", {}, new Blocks(inner, this.depth + 1).nodes()));
    return true;
  }

  list(line) {
    const first = ITEM.exec(line);
    if (!first) return false;
    const kind = first[2].at(-1);
    const ordered = kind === "." || kind === ")";
    const items = [];
    while (this.at < this.lines.length) {
      const match = ITEM.exec(this.lines[this.at]);
      if (!match || match[2].at(-1) !== kind || RULE.test(this.lines[this.at])) break;
      items.push(this.item(match));
    }
    const start = ordered ? Number.parseInt(first[2], 10) : 1;
    const attributes = start === 1 ? {} : { start };
    this.result.push(h(ordered ? "ol" : "ul", attributes, items));
    return true;
  }

  // The item that starts at the present line, with all lines that are indented as far.
  item(match) {
    const wide = match[3].length > 4 ? 1 : match[3].length || 1;
    const indent = match[1].length + match[2].length + wide;
    const inner = [this.lines[this.at].slice(indent)];
    this.at += 1;
    for (; this.at < this.lines.length; this.at += 1) {
      const line = this.lines[this.at];
      if (!line.trim()) {
        const next = this.lines[this.at + 1];
        if (next === undefined || !next.trim() || (indentOf(next) < indent && !ITEM.test(next))) break;
        inner.push("");
        continue;
      }
      if (indentOf(line) >= indent) inner.push(dedent(line, indent));
      else if (indentOf(line) >= 2 && ITEM.test(line.trimStart())) inner.push(line.trimStart());
      else if (startsBlock(line) || inner.at(-1) === "") break;
      else inner.push(line.trimStart());
    }
    const task = /^\[([ xX])\] /.exec(inner[0]);
    if (task) inner[0] = inner[0].slice(4);
    const nodes = new Blocks(inner, this.depth + 1).nodes();
    // An item of one paragraph is that line, not a paragraph in a list.
    const lead = nodes[0]?.tagName === "P" ? [...nodes.shift().childNodes] : [];
    const box = task && h("span", { class: "md-task" }, task[1] === " " ? "☐ " : "☑ ");
    return h("li", { class: task ? "md-task-item" : null }, box, lead, nodes);
  }

  table(line) {
    const under = this.lines[this.at + 1];
    if (!under?.includes("-") || !line.includes("|")) return false;
    const heads = cells(line);
    const marks = cells(under).map((cell) => cell.trim());
    if (heads.length !== marks.length || heads.length > MOST_COLUMNS) return false;
    if (!marks.every((mark) => /^:?-+:?$/.test(mark))) return false;
    const sides = marks.map(sideOf);
    const row = (tag, texts) =>
      h("tr", {}, texts.slice(0, sides.length).map((text, column) =>
        h(tag, { class: sides[column] ? `md-${sides[column]}` : null }, inline(text.trim()))));
    const body = [];
    for (this.at += 2; this.at < this.lines.length; this.at += 1) {
      const each = this.lines[this.at];
      if (!each.trim() || (!each.includes("|") && startsBlock(each))) break;
      body.push(row("td", cells(each)));
    }
    const table = h("table", {}, h("thead", {}, row("th", heads)), h("tbody", {}, body));
    this.result.push(h("div", { class: "md-table", tabindex: "0" }, table));
    return true;
  }

  indented(line) {
    if (!INDENTED.test(line)) return false;
    const body = [];
    while (this.at < this.lines.length) {
      const each = this.lines[this.at];
      if (each.trim() && !INDENTED.test(each)) break;
      body.push(each.replace(INDENTED, ""));
      this.at += 1;
    }
    while (!body.at(-1).trim()) body.pop();
    this.result.push(codeBlock(body.join("\n"), "text"));
    return true;
  }

  paragraph() {
    const first = this.at;
    for (this.at += 1; this.at < this.lines.length; this.at += 1) {
      const line = this.lines[this.at];
      if (!line.trim() || startsBlock(line)) break;
      if (/^ {0,3}=+ *$/.test(line)) {
        const words = this.lines.slice(first, this.at).join("\n");
        this.result.push(h("h4", { class: "md-h1" }, inline(words.trim())));
        this.at += 1;
        return;
      }
    }
    const text = this.lines.slice(first, this.at).map((each) => each.trim()).join("\n");
    this.result.push(h("p", {}, inline(text)));
  }
}

// Some code with its language's name and colours.
function codeBlock(code, language) {
  const name = language && language !== "text" ? h("span", { class: "code-name" }, language) : null;
  const body = h("code", {}, highlight(code, language));
  return h("div", { class: "code-block" }, name, h("pre", { tabindex: "0" }, body));
}

function startsBlock(line) {
  return (
    FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || ITEM.test(line) ||
    /^ {0,3}(?:\$\$|\\\[)/.test(line) || ENVIRONMENT.test(line) || RULE.test(line)
  );
}

// The alignment of a table's column, by the colons under its heading.
function sideOf(mark) {
  if (!mark.endsWith(":")) return "";
  return mark.startsWith(":") ? "center" : "right";
}

// The cells of a table's line, at the bars that are not escaped.
function cells(line) {
  const bare = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return bare.split(/(?<!\\)\|/).map((cell) => cell.replaceAll("\\|", "|"));
}

function indentOf(line) {
  const text = line.search(/[^ ]/);
  return text < 0 ? line.length : line[text] === "\t" ? text + 4 : text;
}

// A line without its first spaces, up to a number; a tab counts as four.
function dedent(line, most) {
  let at = 0;
  for (let width = 0; at < line.length && width < most; at += 1) {
    if (line[at] === " ") width += 1;
    else if (line[at] === "\t") width += 4;
    else break;
  }
  return line.slice(at);
}
