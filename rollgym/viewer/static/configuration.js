// The configurations of runs: settings that differ, settings of one run only, and equal settings. Runs
// without a stored configuration are listed, but not compared.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { count, counted, cut } from "./format.js";
import { failure, skeleton } from "./notices.js";

const FEW = 12;
const MOST_NAMES = 6;

// The configurations of the runs with these ids, or of all.
export function configuration(ids = []) {
  const box = h("section", { class: "configuration", "aria-label": "Configuration" }, skeleton(8));
  const load = async () => {
    try {
      fill(box, drawn(compared(await get("/api/configuration", { source: ids }))));
    } catch (error) {
      fill(box, failure(error, load));
    }
  };
  load();
  return box;
}

// Without runs that have no settings, which would differ from the others in everything.
function compared({ sources: runs, constants, differences }) {
  const isSet = runs.map((_, at) => constants.length > 0 || differences.some(({ values }) => values[at] !== null));
  const rows = differences.map(({ name, values }) => ({ name, values: values.filter((_, at) => isSet[at]) }));
  const isSame = ({ values }) => values[0] !== null && values.every((value) => value === values[0]);
  const settings = (row) => row.values.filter((value) => value !== null).length;
  const different = rows.filter((row) => !isSame(row));
  return {
    runs: runs.filter((_, at) => isSet[at]),
    without: runs.filter((_, at) => !isSet[at]),
    constants: [...constants, ...rows.filter(isSame).map(({ name, values }) => ({ name, value: values[0] }))],
    several: different.filter((row) => settings(row) > 1),
    alone: different.filter((row) => settings(row) === 1),
  };
}

function drawn({ runs, without, constants, several, alone }) {
  if (!runs.length) return muted(`${without.length > 1 ? "These runs have" : "This run has"} no stored configuration.`);
  const isDifferent = several.length > 0 || alone.length > 0;
  return [
    several.length ? differencesTable(runs, several) : null,
    runs.length > 1 && !isDifferent ? muted("The configurations do not differ.") : null,
    alone.length ? onlyInOne(runs, alone) : null,
    constants.length ? constantsOf(runs, constants) : null,
    without.length ? muted(`No stored configuration: ${namesOf(without)}.`) : null,
  ];
}

function differencesTable(runs, rows) {
  return [
    h("h2", { text: "Different settings" }),
    h("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": "Different settings" },
      h("table", { class: "data" },
        h("thead", {}, h("tr", {},
          h("th", { scope: "col", text: "Setting" }),
          runs.map((run) => h("th", { scope: "col", text: run.title })))),
        h("tbody", {}, rows.map((row) => h("tr", {},
          h("th", { scope: "row", class: "mono", text: row.name }),
          row.values.map(settingCell)))))),
  ];
}

function settingCell(value) {
  return h("td", { class: value === null ? "muted" : "mono" },
    value === null ? "not set" : h("span", { class: "clip-2", title: value, text: cut(value, 400) }));
}

// Runs of different kinds have different settings.
function onlyInOne(runs, rows) {
  const settings = rows.map(({ name, values }) => {
    const at = values.findIndex((value) => value !== null);
    return [name, `${cut(values[at], 400)} (${runs[at].title})`];
  });
  return folded("Settings of one run only", settings, rows.length <= FEW);
}

function constantsOf(runs, rows) {
  const alone = runs.length < 2;
  const title = alone ? `Configuration of ${runs[0].title}` : "Equal settings";
  return folded(title, rows.map(({ name, value }) => [name, value]), alone);
}

function folded(title, settings, open) {
  return h("details", { class: "constants", open },
    h("summary", {}, h("h2", { text: title }), h("span", { class: "muted", text: count(settings.length) })),
    h("dl", {}, settings.map(([name, value]) => h("div", {},
      h("dt", { class: "mono", text: name }), h("dd", { class: "mono", text: value })))));
}

function namesOf(runs) {
  const names = runs.slice(0, MOST_NAMES).map(({ title }) => title);
  const more = runs.length - names.length;
  return more ? `${names.join(", ")} and ${counted(more, "other")}` : names.join(", ");
}

function muted(text) {
  return h("p", { class: "muted", text });
}
