// Many things beside each other that are one stop of the Tab key: the arrows go from one to the next.

const BY = { ArrowRight: 1, ArrowLeft: -1 };

// Those within `box` that match the selector; the first is the stop until another had the focus.
export function oneStop(box, selector) {
  const members = [...box.querySelectorAll(selector)];
  members.forEach((member, at) => member.setAttribute("tabindex", at ? "-1" : "0"));
  box.addEventListener("keydown", (event) => {
    const at = members.indexOf(event.target);
    if (at < 0 || !(event.key in BY)) return;
    event.preventDefault();
    const next = members[at + BY[event.key]];
    if (!next) return;
    members[at].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}
