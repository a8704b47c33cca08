// Suggestions under the search box, selects that act at once, prices that follow the variant.
"use strict";

const search = document.querySelector(".search input");
const list = document.querySelector(".suggestions");
let asked = 0;

async function suggest() {
  const text = search.value.trim();
  const number = ++asked;
  if (text.length < 2) {
    list.hidden = true;
    return;
  }
  const answer = await fetch("/shop/suggest?q=" + encodeURIComponent(text));
  if (!answer.ok || number !== asked) return;
  const found = await answer.json();
  list.replaceChildren(...found.map(({ name, url }) => {
    const link = document.createElement("a");
    link.href = url;
    link.textContent = name;
    const item = document.createElement("li");
    item.append(link);
    return item;
  }));
  list.hidden = found.length === 0;
}

search.addEventListener("input", suggest);
document.addEventListener("click", (event) => {
  if (!event.target.closest(".search")) list.hidden = true;
});

for (const select of document.querySelectorAll("select[data-submit]")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}

const variant = document.querySelector("select[data-prices]");
if (variant) {
  const prices = JSON.parse(variant.dataset.prices);
  const shown = document.querySelector(".buy .price");
  const follow = () => {
    shown.textContent = prices[variant.value] ?? shown.textContent;
  };
  variant.addEventListener("change", follow);
  follow();
}

const notice = document.querySelector(".notice");
if (notice) {
  notice.addEventListener("submit", (event) => {
    event.preventDefault();
    notice.remove();
    fetch(notice.action, { method: "POST", redirect: "manual" });
  });
}
