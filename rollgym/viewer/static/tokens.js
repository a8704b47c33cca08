// The exact tokens of a rollout, a branch at a time: what the model read, and what it sampled with which
// probability. Only the tokens in view are in the document.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { count, counted, number, percent } from "./format.js";
import { failureNotice } from "./notices.js";
import { Portions } from "./pages.js";
import { VariableList } from "./virtual.js";

const CHUNK = 256; // tokens of one item of the list
const PORTION = 4; // items of one request
const ESTIMATE = 150; // pixels
const KINDS = {
  prompt: ["prompt", "the model read it"],
  sampled: ["sampled", "sampled here, in the loss"],
  repeated: ["repeated", "sampled in another branch, not in the loss again"],
  unused: ["unused", "sampled, but its turn has a problem: not in the loss"],
};
// Least probability, and the class of the colour.
const LIKELIHOODS = [[0.9, "p-certain"], [0.5, "p-likely"], [0.1, "p-open"], [0.01, "p-unlikely"], [0, "p-rare"]];
const REASONS = {
  prompt: "its prompt is not the one before: messages were dropped, or written in another way",
  reasoning: "the reasoning of the turn before was left out",
  end: "the turn before ends with another token",
  tool_call: "a tool call of the turn before is written in another way",
  text: "the text of the turn before is written or tokenised in another way",
};

export class Tokens {
  // `selected(index)` is called with the branch that the user chose.
  constructor({ place, selected }) {
    this.place = place;
    this.selected = selected;
    this.about = h("div", { class: "tokens-about" });
    this.detail = h("p", { class: "tokens-detail muted", "aria-live": "polite" }, "Choose a token for its details.");
    this.scroller = h("div", { class: "tokens-list", tabindex: "0", role: "region", "aria-label": "Tokens",
      on: { click: (event) => this.#choose(event.target.closest(".token")) } });
    this.head = h("div", { class: "tokens-head" }, h("h2", {}, "Exact tokens"));
    this.node = h("section", { class: "tokens", "aria-label": "Exact tokens" },
      this.head, this.about, legend(), this.scroller, this.detail);
    this.asked = null;
    this.ended = false;
  }

  // Shows a branch; the last one for an index that is too large.
  async show(index) {
    try {
      this.asked ??= get(this.place.paths.tokens(this.place.id));
      this.view = await this.asked;
    } catch (error) {
      this.asked = null;
      if (!this.ended) failureNotice(this.scroller, error, () => this.show(index));
      return;
    }
    if (this.ended) return;
    const branches = this.view.branches ?? [];
    if (!branches.length) {
      fill(this.scroller, h("p", { class: "muted" }, "No token was sampled."));
      return;
    }
    this.#draw(branches, branches[Math.min(index, branches.length - 1)]);
  }

  destroy() {
    this.ended = true;
    this.list?.destroy();
  }

  #draw(branches, branch) {
    fill(this.head, h("h2", {}, "Exact tokens ", h("span", { class: "muted" },
      `${counted(branches.length + (this.view.left_out ?? 0), "branch", "branches")}`)),
      branches.length > 1 ? this.#choices(branches, branch) : null);
    fill(this.about, facts(branch));
    this.list?.destroy();
    fill(this.scroller);
    const chunks = new Portions({
      total: Math.ceil(branch.tokens / CHUNK),
      size: PORTION,
      load: async (from, size) => {
        const params = { branch: branch.index, from: from * CHUNK, count: size * CHUNK };
        const { runs } = await get(this.place.paths.tokens(this.place.id), params);
        return chunksOf(runs, from * CHUNK, size);
      },
    });
    const drawn = (runs) => h("div", { class: "tokens-chunk" }, runs.map(runNodes));
    this.list = new VariableList({
      scroller: this.scroller,
      total: chunks.total,
      estimate: ESTIMATE,
      render: (index) => {
        const chunk = chunks.get(index);
        return Array.isArray(chunk) ? drawn(chunk) : chunk.then(drawn);
      },
    });
  }

  #choices(branches, branch) {
    return h("label", { class: "tokens-choice" }, h("span", {}, "Branch "), h("select", {
      value: String(branch.index),
      on: {
        change: (event) => {
          this.selected(Number(event.target.value));
          this.show(Number(event.target.value));
        },
      },
    }, branches.map((each) => h("option", { value: String(each.index) },
      `${each.index + 1}: from turn ${each.first_turn + 1}, ${counted(each.tokens, "token")}`
      + `${each.reason ? ` (${each.reason})` : ""}`))));
  }

  #choose(token) {
    if (!token) return;
    this.scroller.querySelector(".token.is-chosen")?.classList.remove("is-chosen");
    token.classList.add("is-chosen");
    this.detail.textContent = token.dataset.tip;
    this.detail.classList.remove("muted");
  }
}

// What there is to say about a branch.
function facts(branch) {
  const { tokens, sampled, turns, reason, left_at: leftAt, versions = [], problems = [] } = branch;
  const figures = [
    ["tokens", count(tokens)], ["in the loss", count(sampled)], ["turns", count(turns)],
    ["policy version", versions.join(", ")],
  ].filter(([, value]) => value);
  return [
    h("dl", { class: "figures" }, figures.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    reason ? h("p", { class: "step-note warn" }, h("b", {}, "Branched: "),
      h("span", {}, `after ${counted(leftAt ?? 0, "token")}, because ${REASONS[reason] ?? reason}.`)) : null,
    problems.map((problem) => h("p", { class: "step-note bad" }, h("b", {}, "Problem: "), h("span", {}, problem))),
    branch.has_logprobs ? null : h("p", { class: "muted" }, "The server gave no log probabilities."),
  ];
}

function legend() {
  const swatch = (kind, name, tip) => h("span", { class: `token ${kind}`, data: { tip } }, name);
  return h("p", { class: "tokens-legend" },
    Object.entries(KINDS).map(([kind, [name, tip]]) => swatch(`is-${kind}`, name, tip)),
    h("span", { class: "muted" }, "probability:"),
    LIKELIHOODS.map(([least, tone]) => swatch(`is-sampled ${tone}`,
      least ? `≥ ${percent(least)}` : "less", "probability of a sampled token")));
}

// Runs of tokens, divided into chunks.
function chunksOf(runs, first, size) {
  const chunks = Array.from({ length: size }, () => []);
  for (const run of runs) {
    for (let at = 0; at < run.ids.length;) {
      const place = run.start + at - first;
      const chunk = Math.floor(place / CHUNK);
      const end = Math.min(run.ids.length, at + CHUNK - (place % CHUNK));
      chunks[chunk]?.push({
        ...run, start: run.start + at, ids: run.ids.slice(at, end),
        logprobs: run.logprobs?.slice(at, end) ?? [], texts: run.texts?.slice(at, end) ?? [],
      });
      at = end;
    }
  }
  return chunks;
}

function runNodes(run) {
  const [name] = KINDS[run.kind] ?? [run.kind];
  const version = run.version ? ` · version ${run.version}` : "";
  return h("span", { class: "tokens-run" },
    h("span", { class: "tokens-turn" }, `turn ${run.turn + 1} · ${name}${version}`),
    run.ids.map((id, at) => tokenNode(run, id, run.logprobs[at], run.texts[at], run.start + at)));
}

function tokenNode(run, id, logprob, text, place) {
  const known = typeof logprob === "number" && Number.isFinite(logprob);
  const chance = known ? Math.exp(logprob) : null;
  const tone = known && run.kind !== "prompt" ? LIKELIHOODS.find(([least]) => chance >= least)?.[1] ?? "" : "";
  const about = [
    `token ${place}`, `id ${id}`, text ? `text ${JSON.stringify(text)}` : "", `turn ${run.turn + 1}`,
    KINDS[run.kind]?.[1] ?? run.kind,
    run.kind === "prompt" ? "" : `version ${run.version || "unknown"}`,
    known ? `log probability ${number(logprob)} (${percent(Math.min(1, chance))})` : "",
  ];
  return h("span", { class: `token is-${run.kind} ${tone}`, data: { tip: about.filter(Boolean).join(" · ") } },
    text ? visible(text) : String(id));
}

// A text with marks for what is not visible.
function visible(text) {
  return text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "·");
}
