// Where repeats of one task part: whether they did the same at an index, and from which character on
// their texts differ.

// What was said or done, without what differs from call to call (ids, timings).
function signature(item) {
  if (!item) return "";
  if ("role" in item) {
    const parts = (item.parts ?? []).map((part) => ("text" in part ? [part.text, part.size] : "picture"));
    const calls = (item.calls ?? []).map((call) => [call.name, call.arguments.text]);
    return JSON.stringify([item.role, parts, item.reasoning?.text, calls]);
  }
  return JSON.stringify([item.action, item.arguments?.text, item.url, item.response?.text]);
}

// Whether all of them are there and the same.
export function isSame(items) {
  const [first, ...rest] = items.map(signature);
  return items.every(Boolean) && rest.every((other) => other === first);
}

// How many characters all texts begin with in common, at most. Never ends within a pair of halves.
export function commonStart(texts) {
  const [first = "", ...rest] = texts;
  let end = first.length;
  for (const text of rest) {
    let at = 0;
    while (at < end && at < text.length && text.charCodeAt(at) === first.charCodeAt(at)) at += 1;
    end = at;
  }
  const code = first.charCodeAt(end - 1);
  return code >= 0xd800 && code <= 0xdbff ? end - 1 : end;
}
