// What an action did, drawn on its screenshot: where it clicked, what it typed, how far it scrolled.
//
// Marks are fractions of the picture, so the drawing has the picture's own shape and grows with it.
// Every line is drawn twice, a wide light one under a narrow coloured one, and so stands out on any
// page. Labels are elements of the page, not of the drawing, and stay readable when it is small.

import { h, svg } from "./dom.js";

const WIDTH = 1_000;

// The drawing and the labels of some marks, to be laid over a picture of this shape.
export function overlay(marks, { width, height }) {
  const size = { width: WIDTH, height: Math.round((WIDTH * (height || 768)) / (width || 1280)) };
  const viewBox = `0 0 ${size.width} ${size.height}`;
  const shapes = marks.map((mark) => DRAWN[mark.shape]?.(placed(mark, size)) ?? null);
  const drawing = svg("svg", { class: "overlay", viewBox, "aria-hidden": "true" }, shapes);
  return [drawing, marks.filter((mark) => mark.label).map(label)];
}

function placed(mark, size) {
  return {
    x: mark.x * size.width,
    y: mark.y * size.height,
    width: (mark.width ?? 0) * size.width,
    height: (mark.height ?? 0) * size.height,
  };
}

const DRAWN = {
  point: ({ x, y }) => svg("g", { class: "mark-point" },
    svg("circle", { class: "mark-dot", cx: x, cy: y, r: 5 }),
    twice((layer) => svg("circle", { class: layer, cx: x, cy: y, r: 17 }))),
  box: ({ x, y, width, height }) => svg("g", { class: "mark-box" },
    twice((layer) => svg("rect", { class: layer, x, y, width, height, rx: 3 }))),
  arrow: ({ x, y, width, height }) => svg("g", { class: "mark-arrow" },
    twice((layer) => svg("path", { class: layer, d: arrowPath(x, y, width, height) }))),
};

function twice(shape) {
  return [shape("mark-halo"), shape("mark-line")];
}

function arrowPath(x, y, width, height) {
  const [endX, endY] = [x + width, y + height];
  const angle = Math.atan2(height, width);
  const head = Math.min(28, Math.hypot(width, height) * 0.5);
  const side = (turn) => `${endX - head * Math.cos(angle + turn)},${endY - head * Math.sin(angle + turn)}`;
  return `M${x},${y} L${endX},${endY} M${side(0.5)} L${endX},${endY} L${side(-0.5)}`;
}

// On the side of its mark that has space.
function label(mark) {
  const [width, height] = [Math.max(mark.width ?? 0, 0), Math.max(mark.height ?? 0, 0)];
  const isBelow = mark.y < 0.12;
  const x = mark.x > 0.6 ? { right: percent(1 - mark.x - width) } : { left: percent(mark.x) };
  const y = isBelow ? { top: percent(mark.y + height) } : { bottom: percent(1 - mark.y) };
  const side = isBelow ? "is-below" : "is-above";
  return h("span", { class: `mark-label ${side}`, style: { ...x, ...y } }, mark.label);
}

function percent(fraction) {
  return `${Math.min(Math.max(fraction, 0), 1) * 100}%`;
}
