// The tokens of a formula, one after another.

const DEEPEST = 40;
const TOKEN = /\\(?:[A-Za-z]+\*?|[\s\S])|\s+|%[^\n]*|[\s\S]/gu;

export class NotUnderstood extends Error {}

export class Tokens {
  constructor(source) {
    this.tokens = source.match(TOKEN)?.filter((token) => !token.startsWith("%")) ?? [];
    this.at = 0;
    this.depth = 0;
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
}
