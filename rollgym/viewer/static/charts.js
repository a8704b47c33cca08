// Charts as SVG, drawn in real pixels, so that lines and texts stay crisp.
//
// Each chart has a fixed height and the width of its box. Everything clickable is a link whose name has
// the text of its tooltip.

import { h, refill, svg } from "./dom.js";
import { compact, count, counted, percent } from "./format.js";
import { oneStop } from "./keyboard.js";

const MARGIN = { top: 10, right: 8, bottom: 22, left: 40 };
const LABEL_ROOM = 64;
const LETTER = 6.2; // px: the approximate width of a letter in a label
const WIDEST_BAR = 96;

// A box that calls `draw(width, height)` for its SVG children, now and whenever its width changes.
function responsive({ height, label, draw }) {
  const box = h("div", { class: "chart", style: { height: `${height}px` } });
  let drawn = 0;
  const observer = new ResizeObserver(() => {
    const width = Math.floor(box.clientWidth);
    if (!width || width === drawn) return;
    drawn = width;
    const drawing = svg("svg", {
      width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label,
    }, draw(width, height));
    oneStop(drawing, "a.mark");
    refill(box, drawing);
  });
  observer.observe(box);
  return box;
}

// `bins` of {from, to, count, min, max}. `hrefOf(bin)` is the link of a bar; `format` formats values.
export function histogram({ bins, label, format, hrefOf, height = 150, chosen = () => false }) {
  return responsive({
    height, label,
    draw(width) {
      const most = Math.max(1, ...bins.map((bin) => bin.count));
      const area = areaOf(width, height);
      const scale = steps(most, area.height > 90 ? 3 : 2);
      const y = (value) => area.bottom - (value / scale.at(-1)) * area.height;
      const step = area.width / bins.length;
      const gap = Math.max(step - WIDEST_BAR, step > 6 ? Math.min(2, step / 6) : 0.5);
      return [
        grid(scale, y, area, compact),
        bins.map((bin, at) => histogramBar({
          bin, href: hrefOf(bin), key: `${label} ${at}`, words: binWords(bin, format),
          left: area.left + at * step, width: step, gap, y, area, chosen: chosen(bin),
        })),
        axis(area),
        edges(bins, area, step, format),
      ];
    },
  });
}

function histogramBar({ bin, href, key, words, left, width, gap, y, area, chosen }) {
  if (!bin.count) return null;
  const top = Math.min(y(bin.count), area.bottom - 2); // high enough for a single rollout to be visible
  return svg("a", { href, class: `mark${chosen ? " is-chosen" : ""}`, "aria-label": words, data: { tip: words, key } },
    // The whole column is clickable, even if its bar is low.
    svg("rect", { class: "hit", x: left, width, y: area.top, height: area.height }),
    svg("rect", {
      class: "bar", x: left + gap / 2, width: Math.max(1, width - gap), y: top,
      height: area.bottom - top, rx: width > 8 ? 2 : 0,
    }));
}

function binWords(bin, format) {
  // A bin of integers ends one below the next one.
  const whole = Number.isInteger(bin.min) && Number.isInteger(bin.max);
  const [low, high] = whole ? [bin.min, bin.max] : [bin.from, bin.to];
  const range = low === high ? format(low) : `${format(low)} to ${format(high)}`;
  return `${range}: ${counted(bin.count, "rollout")}`;
}

// Labels under the edges of the bins, as many as fit.
function edges(bins, area, step, format) {
  const longest = Math.max(...bins.map((bin) => format(bin.from).length)) * LETTER + 12;
  const room = Math.max(LABEL_ROOM, longest);
  const every = Math.max(1, Math.ceil((room * bins.length) / area.width));
  const y = area.bottom + 15;
  const label = (x, text, anchor) => svg("text", { class: "label", x, y, "text-anchor": anchor }, text);
  // A bin of one integer has its label in the middle.
  if (bins.length === 1 || bins.every((bin) => Number.isInteger(bin.from) && bin.to - bin.from === 1)) {
    return bins.map((bin, at) =>
      (at % every ? null : label(area.left + (at + 0.5) * step, format(bin.from), "middle")));
  }
  // Values far above all others share one last bin, which is wider than it is drawn.
  const usual = bins[0].to - bins[0].from;
  const tail = bins.at(-1).to - bins.at(-1).from > 1.5 * usual;
  const end = tail ? `≥ ${format(bins.at(-1).from)}` : format(bins.at(-1).to);
  const labels = [label(area.right, end, "end")];
  for (let at = 0; at < bins.length; at += every) {
    const x = area.left + at * step;
    if (area.right - x > 1.3 * room) labels.push(label(x, format(bins[at].from), at ? "middle" : "start"));
  }
  return labels;
}

// Lines over the same points. `points` of {x: label, words, href | null}; `series` of
// {name, class, values, plain}; values may be null; `plain` lines have no dots. The axis has at least 0 to 1.
export function lines({ points, series, label, height = 150, format = percent }) {
  return responsive({
    height, label,
    draw(width) {
      const area = areaOf(width, height);
      const values = series.flatMap((one) => one.values.filter((value) => value !== null));
      const [low, high] = [Math.min(0, ...values), Math.max(...values) > 1 ? Math.max(...values) : 1];
      const y = (value) => area.bottom - ((value - low) / (high - low)) * area.height;
      const step = area.width / points.length;
      const x = (at) => area.left + (at + 0.5) * step;
      return [
        grid([low, (low + high) / 2, high], y, area, format),
        axis(area),
        series.map((one) => svg("path", { class: `line ${one.class}`, d: pathOf(one.values, x, y) })),
        series.map((one) => step < 8 || one.plain ? null : one.values.map((value, at) => value === null ? null
          : svg("circle", { class: `dot ${one.class}`, cx: x(at), cy: y(value), r: Math.min(3, step / 3) }))),
        points.map((point, at) => band(point, `${label} ${at}`, area.left + at * step, step, area)),
        pointLabels(points, x, area),
      ];
    },
  });
}

function band(point, key, left, width, area) {
  const rect = svg("rect", { class: "hit band", x: left, width, y: area.top, height: area.height });
  return point.href
    ? svg("a", { href: point.href, class: "mark", "aria-label": point.words, data: { tip: point.words, key } }, rect)
    : svg("g", { role: "img", "aria-label": point.words, data: { tip: point.words } }, rect);
}

function pathOf(values, x, y) {
  let path = "";
  let pen = "M";
  values.forEach((value, at) => {
    if (value === null) return;
    path += `${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  });
  return path;
}

function pointLabels(points, x, area) {
  const last = points.length - 1;
  const roomy = last > 3 && area.width > 4.5 * LABEL_ROOM;
  const shown = last < 1 ? [0] : roomy ? [0, Math.round(last / 2), last] : [0, last];
  return shown.map((at) => {
    const anchor = shown.length === 1 ? "middle" : at === 0 ? "start" : at === last ? "end" : "middle";
    const left = anchor === "start" ? area.left : anchor === "end" ? area.right : x(at);
    return svg("text", { class: "label", x: left, y: area.bottom + 15, "text-anchor": anchor }, points[at].x);
  });
}

// Few bars with their numbers on top: `items` of {label, value (0 to 1), words}.
export function columns({ items, label, height = 150, format = percent }) {
  return responsive({
    height, label,
    draw(width) {
      const area = { left: 4, right: width - 4, bottom: height - MARGIN.bottom };
      const highest = area.bottom - 20; // the space below the number on top
      const step = Math.min(120, (area.right - area.left) / items.length);
      return [
        axis(area),
        items.map((item, at) => {
          const middle = area.left + (at + 0.5) * step;
          const top = area.bottom - Math.max(2, item.value * highest);
          const bar = Math.min(36, step * 0.64);
          return svg("g", { role: "img", "aria-label": item.words, data: { tip: item.words } },
            svg("rect", { class: "hit", x: middle - step / 2, width: step, y: 0, height }),
            svg("rect", { class: "bar", x: middle - bar / 2, width: bar, y: top, height: area.bottom - top, rx: 2 }),
            svg("text", { class: "value", x: middle, y: top - 5, "text-anchor": "middle" }, format(item.value)),
            svg("text", { class: "label", x: middle, y: area.bottom + 15, "text-anchor": "middle" }, item.label));
        }),
      ];
    },
  });
}

// Names with bars beside them, the longest first. `items` of {name, value, href, tone, note, tip}.
export function ranking({ items, format = count, label }) {
  const most = Math.max(1, ...items.map(({ value }) => value));
  return h("ul", { class: "ranking", "aria-label": label }, items.map((item) => {
    const content = [
      h("span", { class: "ranking-name clip", text: item.name }),
      h("span", { class: "ranking-track", "aria-hidden": "true" },
        h("span", { class: `ranking-bar ${item.tone ?? ""}`, style: { width: `${(100 * item.value) / most}%` } })),
      h("span", { class: "ranking-value", text: format(item.value) }),
      item.note ? h("span", { class: "ranking-note muted clip", text: item.note }) : null,
    ];
    const data = { tip: item.tip ?? `${item.name}: ${format(item.value)}`, key: `${label} ${item.name}` };
    return h("li", {}, item.href
      ? h("a", { href: item.href, "aria-label": data.tip, data }, content)
      : h("div", { data }, content));
  }));
}

// One bar in parts that add up to a whole. `parts` of {name, value, tone, href | null}.
export function stacked({ parts, label, legend = true }) {
  const whole = parts.reduce((sum, part) => sum + part.value, 0);
  const shown = parts.filter(({ value }) => value > 0);
  const words = (part) => `${part.name}: ${count(part.value)} (${percent(part.value / whole)})`;
  // With a legend, the bar itself is hidden from screen readers.
  const spoken = legend
    ? { role: "presentation" } : { role: "img", "aria-label": `${label}: ${shown.map(words).join(", ")}` };
  const bar = h("div", { class: "stacked", ...spoken },
    shown.map((part) => h("span", {
      class: `part ${part.tone}`, style: { "flex-grow": part.value }, data: { tip: words(part) },
    })));
  if (!legend) return bar;
  return h("div", { class: "coverage" }, bar,
    h("ul", { class: "states", "aria-label": label }, parts.map((part) => {
      const content = [
        h("span", { class: `states-swatch ${part.tone}`, "aria-hidden": "true" }),
        h("span", { class: "states-name", text: part.name }),
        h("strong", { text: count(part.value) }),
      ];
      return h("li", {}, part.href && part.value
        ? h("a", { href: part.href, data: { key: `${label} ${part.name}` } }, content)
        : h("span", { class: part.value ? "" : "muted" }, content));
    })));
}

function areaOf(width, height) {
  const left = MARGIN.left;
  const right = width - MARGIN.right;
  return {
    left, right, top: MARGIN.top, bottom: height - MARGIN.bottom,
    width: Math.max(1, right - left), height: height - MARGIN.top - MARGIN.bottom,
  };
}

function grid(scale, y, area, format) {
  return scale.map((value) => [
    value === 0 ? null : level("grid", Math.round(y(value)), area),
    svg("text", { class: "label", x: area.left - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)),
  ]);
}

function axis(area) {
  return level("axis", area.bottom, area);
}

// A horizontal line on whole pixels.
function level(kind, y, area) {
  return svg("line", { class: kind, x1: area.left, x2: area.right, y1: y + 0.5, y2: y + 0.5 });
}

// Round numbers from 0 to at least `most`.
function steps(most, wanted) {
  const rough = most / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough));
  const scale = [0];
  while (scale.at(-1) < most) scale.push(scale.at(-1) + step);
  return scale;
}
