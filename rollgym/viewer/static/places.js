// Where a text stands in the document, and how it comes into view: folds are opened, what was cut is
// fetched, and whatever scrolls is scrolled.

import { textBlock } from "./text.js";

// What is not looked into: it repeats other parts, or the whole.
const LEFT_CLOSED = ".step-prompt, .step-raw";
const MOST_OPENED = 200;
const SHARE_ABOVE = 0.3; // of what scrolls, over what is brought into view

// The ranges of a text in small letters within an element, one by one.
export function* rangesOf(root, sought) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const text = node.data.toLowerCase();
    // Where case changes the length, places would be wrong.
    if (text.length !== node.data.length) continue;
    for (let at = text.indexOf(sought); at >= 0; at = text.indexOf(sought, at + sought.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + sought.length);
      yield range;
    }
  }
}

// The first place of a text that can be seen within an element, after opening what hides it; null
// where there is none.
export async function uncover(root, sought) {
  let opened = 0;
  const within = async (part) => {
    const seen = firstSeen(part, sought);
    if (seen) return seen;
    for (const node of part.querySelectorAll(".text")) {
      const found = (await textBlock(node)?.openAt(sought)) && firstSeen(part, sought);
      if (found) return found;
    }
    for (const details of part.querySelectorAll("details:not([open])")) {
      if (details.matches(LEFT_CLOSED) || details.open || opened >= MOST_OPENED) continue;
      opened += 1;
      setOpen(details, true);
      const found = await within(details);
      if (found) return found;
      setOpen(details, false);
    }
    return null;
  };
  return within(root);
}

// A line that stands for what is folded is no place of its own.
function firstSeen(root, sought) {
  for (const range of rangesOf(root, sought)) {
    const around = range.startContainer.parentElement;
    if (around.checkVisibility() && !around.closest(".fold-preview")) return range;
  }
  return null;
}

// The browser's own event comes late, and the content is made when it comes.
function setOpen(details, open) {
  details.open = open;
  details.dispatchEvent(new Event("toggle"));
}

// Scrolls whatever a range lies in, so that it can be seen; `inset` is what lies over it at the top.
export async function bringIntoView(range, inset) {
  const { parentElement } = range.startContainer;
  // A long text is laid out when it comes near, and cannot be scrolled before.
  parentElement.scrollIntoView({ block: "nearest" });
  for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
  for (let box = parentElement; box; box = box.parentElement) {
    if (box.scrollHeight <= box.clientHeight || !/auto|scroll/.test(getComputedStyle(box).overflowY)) continue;
    const place = range.getBoundingClientRect();
    const { top } = box.getBoundingClientRect();
    if (place.top >= top + inset && place.bottom <= top + box.clientHeight) continue;
    box.scrollTop += place.top - top - box.clientHeight * SHARE_ABOVE;
  }
}
