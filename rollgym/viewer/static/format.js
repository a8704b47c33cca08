// Numbers, durations and times as people read them.

import { h } from "./dom.js";

const THIN = "\u202f"; // a narrow space that does not break
const NOTHING = "–";
const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
const CLOCK_SECONDS = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hour12: false });
const DAY = new Intl.DateTimeFormat(undefined, {
  month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hour12: false,
});

// 1,234
export function count(value) {
  return value === null || value === undefined ? NOTHING : WHOLE.format(value);
}

// "1 rollout", "1,234 rollouts"
export function counted(value, noun, plural = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : plural}`;
}

// 950, 1.2k, 34k, 5.6M
export function compact(value) {
  if (value === null || value === undefined) return NOTHING;
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    // 999,950 would be shown as 1000k.
    if (Math.abs(value) >= size * 0.99995) {
      const scaled = value / size;
      return `${trimmed(scaled.toFixed(Math.abs(scaled) < 99.95 ? 1 : 0))}${unit}`;
    }
  }
  return trimmed(value.toFixed(Number.isInteger(value) ? 0 : 1));
}

// A number with three significant figures: 0.333, 12.5, 1,234, 2.5e12.
export function number(value) {
  if (value === null || value === undefined) return NOTHING;
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1e9 || (size !== 0 && size < 0.001)) return powers(value);
  if (size >= 1000) return WHOLE.format(value);
  return trimmed(value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3));
}

export function percent(share) {
  if (share === null || share === undefined) return NOTHING;
  const value = 100 * share;
  const digits = value > 0 && value < 10 || value > 99 && value < 100 ? 1 : 0;
  return `${trimmed(value.toFixed(digits))}${THIN}%`;
}

// 340 ms, 3.4 s, 2 min 5 s, 3 h 20 min
export function seconds(value) {
  if (value === null || value === undefined) return NOTHING;
  if (value === 0) return `0${THIN}s`;
  if (value < 0.9995) return `${Math.round(value * 1000)}${THIN}ms`;
  if (value < 59.95) return `${trimmed(value.toFixed(1))}${THIN}s`;
  const whole = Math.round(value);
  if (whole < 3600) return pair(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 172_800) return pair(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  return pair(Math.floor(whole / 86_400), "d", Math.floor((whole % 86_400) / 3600), "h");
}

export function bytes(value) {
  if (value === null || value === undefined) return NOTHING;
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (value >= size) return `${trimmed((value / size).toFixed(1))}${THIN}${unit}`;
  }
  return `${value}${THIN}B`;
}

// A <time> in the user's time zone. `time` is in seconds since the epoch.
export function moment(time) {
  if (time === null || time === undefined) return NOTHING;
  const date = new Date(time * 1000);
  if (Number.isNaN(date.getTime())) return NOTHING;
  const iso = date.toISOString();
  const today = new Date().toDateString() === date.toDateString();
  return h("time", { datetime: iso, title: iso }, today ? CLOCK.format(date) : DAY.format(date));
}

// A full date and time as a string.
export function momentWords(time) {
  const date = new Date(time * 1000);
  return Number.isNaN(date.getTime()) ? NOTHING : DATE.format(date);
}

// The id of a record from its entry number, which has the part in its upper half.
export function recordWords(entry) {
  return `${Math.floor(entry / 2 ** 32)}-${entry % 2 ** 32}`;
}

// A time for an axis; with the day only if the span (in seconds) is longer than a day.
export function axisMoment(time, span) {
  const date = new Date(time * 1000);
  if (Number.isNaN(date.getTime())) return NOTHING;
  return (span > 86_400 ? DAY : span > 600 ? CLOCK : CLOCK_SECONDS).format(date);
}

export function words(name) {
  return name.replaceAll("_", " ");
}

export function cut(text, limit) {
  return text.length <= limit ? text : `${text.slice(0, limit - 1)}…`;
}

function pair(more, moreUnit, less, lessUnit) {
  const first = `${more}${THIN}${moreUnit}`;
  return less ? `${first} ${less}${THIN}${lessUnit}` : first;
}

// 2.5e12, 1e-9
function powers(value) {
  const [digits, exponent] = value.toExponential(2).split("e");
  return `${trimmed(digits)}e${Number(exponent)}`;
}

function trimmed(digits) {
  return digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits;
}
