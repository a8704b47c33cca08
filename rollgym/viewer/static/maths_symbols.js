// What the commands of LaTeX stand for: letters, operators, functions, accents, brackets.

import { math } from "./dom.js";

// Tables without a prototype: a text may contain the name "constructor".
const pairs = (text) => ({
  __proto__: null, ...Object.fromEntries(text.trim().split(/\s+/).map((pair) => pair.split(":"))),
});
const set = (text) => new Set(text.trim().split(/\s+/));

// Commands that are letters.
export const LETTERS = pairs(`
  alpha:α beta:β gamma:γ delta:δ epsilon:ϵ varepsilon:ε zeta:ζ eta:η theta:θ vartheta:ϑ iota:ι
  kappa:κ lambda:λ mu:μ nu:ν xi:ξ omicron:ο pi:π varpi:ϖ rho:ρ varrho:ϱ sigma:σ varsigma:ς tau:τ
  upsilon:υ phi:ϕ varphi:φ chi:χ psi:ψ omega:ω Gamma:Γ Delta:Δ Theta:Θ Lambda:Λ Xi:Ξ Pi:Π Sigma:Σ
  Upsilon:Υ Phi:Φ Psi:Ψ Omega:Ω infty:∞ partial:∂ nabla:∇ ell:ℓ hbar:ℏ Re:ℜ Im:ℑ aleph:ℵ wp:℘
  emptyset:∅ varnothing:∅ top:⊤ bot:⊥ angle:∠ triangle:△ square:□ blacksquare:■ degree:° imath:ı
  jmath:ȷ dots:… ldots:… cdots:⋯ vdots:⋮ ddots:⋱ prime:′ checkmark:✓ clubsuit:♣ diamondsuit:♢
  heartsuit:♡ spadesuit:♠ pounds:£ euro:€ S:§ P:¶ AA:Å ss:ß dag:† ddag:‡ Box:□ diamond:⋄ star:⋆
  qed:∎ mho:℧ beth:ℶ complement:∁
`);

// Commands that are operators or relations.
export const OPERATORS = pairs(`
  times:× cdot:⋅ div:÷ pm:± mp:∓ ast:∗ circ:∘ bullet:∙ oplus:⊕ ominus:⊖ otimes:⊗ oslash:⊘ odot:⊙
  leq:≤ le:≤ geq:≥ ge:≥ leqslant:⩽ geqslant:⩾ neq:≠ ne:≠ equiv:≡ approx:≈ sim:∼ simeq:≃ cong:≅
  propto:∝ doteq:≐ asymp:≍ ll:≪ gg:≫ prec:≺ succ:≻ preceq:⪯ succeq:⪰ in:∈ notin:∉ ni:∋ subset:⊂
  supset:⊃ subseteq:⊆ supseteq:⊇ subsetneq:⊊ supsetneq:⊋ cup:∪ cap:∩ setminus:∖ sqcup:⊔ sqcap:⊓
  wedge:∧ land:∧ vee:∨ lor:∨ neg:¬ lnot:¬ forall:∀ exists:∃ nexists:∄ to:→ rightarrow:→ gets:←
  leftarrow:← leftrightarrow:↔ Rightarrow:⇒ implies:⟹ impliedby:⟸ Leftarrow:⇐ Leftrightarrow:⇔
  iff:⟺ mapsto:↦ longmapsto:⟼ longrightarrow:⟶ longleftarrow:⟵ Longrightarrow:⟹ Longleftarrow:⟸
  Longleftrightarrow:⟺ uparrow:↑ downarrow:↓ updownarrow:↕ Uparrow:⇑ Downarrow:⇓ nearrow:↗
  searrow:↘ swarrow:↙ nwarrow:↖ hookrightarrow:↪ hookleftarrow:↩ rightharpoonup:⇀ rightleftharpoons:⇌
  leadsto:⇝ perp:⟂ parallel:∥ nparallel:∦ mid:∣ nmid:∤ vdash:⊢ dashv:⊣ models:⊨ vDash:⊨ therefore:∴
  because:∵ coloneqq:≔ triangleq:≜ bowtie:⋈ amalg:⨿ dagger:† ddagger:‡ wr:≀ ltimes:⋉
  rtimes:⋊ gtrsim:≳ lesssim:≲ backslash:∖ lt:< gt:> And:& uplus:⊎ sqsubseteq:⊑ sqsupseteq:⊒
  triangleleft:◃ triangleright:▹ unlhd:⊴ unrhd:⊵ nleq:≰ ngeq:≱ nsubseteq:⊈ smile:⌣ frown:⌢
  lesseqgtr:⋚ preccurlyeq:≼ succcurlyeq:≽ barwedge:⊼ veebar:⊻ intercal:⊺
`);

// Big operators, with their bounds below and above where there is room.
export const BIG = pairs(`
  sum:∑ prod:∏ coprod:∐ bigcup:⋃ bigcap:⋂ bigoplus:⨁ bigotimes:⨂ bigodot:⨀ bigvee:⋁ bigwedge:⋀
  bigsqcup:⨆ biguplus:⨄
`);
export const INTEGRALS = pairs("int:∫ iint:∬ iiint:∭ oint:∮ oiint:∯ smallint:∫");

export const FUNCTIONS = set(`
  sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh coth log ln lg exp det dim ker
  deg arg hom sgn Pr gcd lcm max min sup inf lim limsup liminf argmax argmin mod erf tr rank span
  diag softmax
`);
// Functions whose subscript stands below.
export const LIMITS = set("lim limsup liminf max min sup inf det gcd Pr argmax argmin");

export const ACCENTS = pairs(`
  hat:^ widehat:^ bar:¯ overline:‾ tilde:~ widetilde:~ vec:→ overrightarrow:→ overleftarrow:← dot:˙
  ddot:¨ dddot:⃛ check:ˇ breve:˘ acute:´ grave:\` mathring:˚ overbrace:⏞
`);
export const UNDER = pairs("underline:_ underbrace:⏟ underrightarrow:→");
export const STRETCHED = set(
  "widehat widetilde overline overrightarrow overleftarrow overbrace underbrace underline underrightarrow",
);

export const BRACKETS = {
  __proto__: null,
  "(": "(", ")": ")", "[": "[", "]": "]", "|": "|", "/": "/", ".": "", "<": "⟨", ">": "⟩",
  ...pairs(`
    lbrace:{ rbrace:} langle:⟨ rangle:⟩ lfloor:⌊ rfloor:⌋ lceil:⌈ rceil:⌉ vert:| lvert:| rvert:|
    Vert:‖ lVert:‖ rVert:‖ lbrack:[ rbrack:] ulcorner:⌜ urcorner:⌝ uparrow:↑ downarrow:↓
    backslash:∖ lgroup:⟮ rgroup:⟯
  `),
  "{": "{", "}": "}", "\\|": "‖",
};

// Spaces, in em.
export const SPACES = {
  __proto__: null,
  ",": "0.167em", ":": "0.222em", ">": "0.222em", ";": "0.278em", "!": "-0.167em", " ": "0.333em",
  "\n": "0.333em", quad: "1em", qquad: "2em", enspace: "0.5em", thinspace: "0.167em",
  medspace: "0.222em", thickspace: "0.278em", negthinspace: "-0.167em",
};

// Commands that have no visible effect here.
export const SILENT = set(`
  displaystyle textstyle scriptstyle scriptscriptstyle limits nolimits nonumber notag hfill hline
  centering allowbreak relax strut big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr
  bigm middle rm bf it normalsize small large
`);
// The same, with an argument that is not shown either.
export const DROPPED = set("label tag hspace vspace phantom hphantom vphantom color textcolor mathstrut");

export const ENVIRONMENTS = {
  __proto__: null,
  matrix: ["", ""], smallmatrix: ["", ""], array: ["", ""], pmatrix: ["(", ")"], bmatrix: ["[", "]"],
  Bmatrix: ["{", "}"], vmatrix: ["|", "|"], Vmatrix: ["‖", "‖"], cases: ["{", ""], dcases: ["{", ""],
  rcases: ["", "}"], aligned: ["", ""], align: ["", ""], split: ["", ""], gathered: ["", ""],
  gather: ["", ""], equation: ["", ""], alignedat: ["", ""], multline: ["", ""], eqnarray: ["", ""],
  substack: ["", ""],
};

const EXCEPTIONS = {
  bb: { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" },
  script: { B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ", M: "ℳ", R: "ℛ", e: "ℯ", g: "ℊ", o: "ℴ" },
  fraktur: { C: "ℭ", H: "ℌ", I: "ℑ", R: "ℜ", Z: "ℨ" },
};
// The Unicode positions of an alphabet's capitals, small letters and digits.
const ALPHABETS = {
  bb: [0x1d538, 0x1d552, 0x1d7d8],
  script: [0x1d49c, 0x1d4b6, null],
  fraktur: [0x1d504, 0x1d51e, null],
  bold: [0x1d400, 0x1d41a, 0x1d7ce],
  sans: [0x1d5a0, 0x1d5ba, 0x1d7e2],
  mono: [0x1d670, 0x1d68a, 0x1d7f6],
};
export const FONTS = pairs(`
  mathbb:bb Bbb:bb mathcal:script mathscr:script mathfrak:fraktur mathbf:bold boldsymbol:bold bm:bold
  mathsf:sans mathtt:mono
`);

// A text in one of the alphabets; other characters stay as they are.
export function inAlphabet(text, alphabet) {
  const [capital, small, digit] = ALPHABETS[alphabet];
  return [...text].map((character) => {
    const exception = EXCEPTIONS[alphabet]?.[character];
    if (exception) return exception;
    const code = character.codePointAt(0);
    if (character >= "A" && character <= "Z") return String.fromCodePoint(capital + code - 65);
    if (character >= "a" && character <= "z") return String.fromCodePoint(small + code - 97);
    if (digit && character >= "0" && character <= "9") return String.fromCodePoint(digit + code - 48);
    return character;
  }).join("");
}

// Elements of MathML that formulas are made of.

export function upright(text) {
  return math("mi", { mathvariant: "normal" }, text);
}

export function table(rows, layout) {
  return math("mtable", { class: `math-${layout}`, displaystyle: layout === "align" ? "true" : null },
    rows.map((row) => math("mtr", {}, row.map((cell) => math("mtd", {}, cell)))));
}

export function fence(start, inner, end) {
  if (!start && !end) return inner;
  const bracket = (text) => (text ? math("mo", { fence: "true", stretchy: "true" }, text) : null);
  return math("mrow", {}, bracket(start), inner, bracket(end));
}

// Brackets without \left or \right do not stretch.
export function bracketProps(token) {
  return /[()[\]{}|/]/.test(token) ? { stretchy: "false" } : {};
}
