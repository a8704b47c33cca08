// The menu in which the columns of the list are chosen.

import { get } from "./api.js";
import { COLUMNS, fieldColumn } from "./columns.js";
import { h, refill } from "./dom.js";

// `facets` is where to ask for the fields that there are, `shown()` gives the present columns, and
// `choose(ids)` is called with others; with none for the usual ones.
export function columnMenu({ facets, shown, choose }) {
  const box = h("div", { class: "columns-menu" });
  const draw = (fields) => refill(box, choices(shown(), fields, (ids) => {
    choose(ids);
    if (!ids.length) draw(fields);
  }));
  draw([]);
  get(facets).then((known) => draw(known.fields ?? []), () => {});
  return box;
}

// A checkbox for each column, and for each field that rollouts brought along.
function choices(shown, fields, change) {
  const ids = shown.map((column) => column.id);
  const all = [...COLUMNS, ...fields.map(({ name }) => fieldColumn(name))];
  const toggle = (column, on) => {
    const at = ids.indexOf(column.id);
    if (on && at < 0) ids.splice(placeOf(column, ids, all), 0, column.id);
    else if (!on && at >= 0) ids.splice(at, 1);
    change([...ids]);
  };
  const option = (column) => h("label", { class: "option" },
    h("input", {
      type: "checkbox", checked: ids.includes(column.id), data: { key: column.id },
      on: { change: (event) => toggle(column, event.target.checked) },
    }),
    h("span", { text: column.menu ?? column.title, title: column.about ?? column.menu ?? column.title }));
  return h("div", {},
    h("fieldset", { class: "options two" }, h("legend", { text: "Columns" }), COLUMNS.map(option)),
    fields.length
      ? h("fieldset", { class: "options two" },
        h("legend", { text: "Fields of the rollouts" }), all.slice(COLUMNS.length).map(option))
      : null,
    h("button", { class: "quiet", data: { key: "usual" }, on: { click: () => change([]) } }, "Usual columns"));
}

// Beside the shown column that comes before it in the menu.
function placeOf(column, ids, all) {
  const order = all.map(({ id }) => id);
  for (let at = order.indexOf(column.id) - 1; at >= 0; at--) {
    const place = ids.indexOf(order[at]);
    if (place >= 0) return place + 1;
  }
  return 0;
}
