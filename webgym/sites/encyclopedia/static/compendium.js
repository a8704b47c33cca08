// The table of contents can be folded away.
"use strict";

const toggle = document.querySelector(".contents button");
if (toggle) {
  toggle.addEventListener("click", () => {
    const list = document.querySelector(".contents ol");
    list.hidden = !list.hidden;
    toggle.textContent = list.hidden ? "show" : "hide";
    toggle.setAttribute("aria-expanded", String(!list.hidden));
  });
}
