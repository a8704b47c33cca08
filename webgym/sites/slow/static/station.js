// What comes after the page: readings, a late button, storms as one scrolls, and a picture never.
"use strict";

const status = document.querySelector(".status");
const say = (text) => {
  if (status) status.textContent = text;
};
const get = async (url) => {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error("the station answered " + answer.status);
  return answer.json();
};

const table = document.querySelector("[data-load]");
if (table) {
  get(table.dataset.load).then((rows) => {
    table.tBodies[0].replaceChildren(...rows.map((row) => {
      const line = document.createElement("tr");
      for (const text of row) line.insertCell().textContent = text;
      return line;
    }));
    say("Updated a moment ago");
  }).catch((error) => say(error.message));
}

const late = document.getElementById("late");
if (late) {
  setTimeout(() => {
    const button = document.createElement("button");
    button.textContent = "Print the report";
    button.addEventListener("click", async () => {
      const answer = await fetch("/slow/report", { method: "POST" });
      const { lines } = await answer.json();
      const report = document.createElement("div");
      report.className = "report";
      for (const text of lines) {
        const line = document.createElement("p");
        line.textContent = text;
        report.append(line);
      }
      late.replaceChildren(report);
    });
    late.replaceChildren(button);
  }, Number(late.dataset.after));
}

const storms = document.querySelector("[data-more]");
if (storms) {
  let loading = false;
  let ended = false;
  const more = async () => {
    if (loading || ended) return;
    loading = true;
    const { entries, last } = await get(storms.dataset.more + "?from=" + storms.children.length);
    for (const { title, text } of entries) {
      const item = document.createElement("li");
      const name = document.createElement("b");
      name.textContent = title;
      item.append(name, document.createElement("br"), text);
      storms.append(item);
    }
    ended = last;
    loading = false;
    say(ended ? "These are all." : "Loading…");
    if (!ended && status.getBoundingClientRect().top < innerHeight + 200) more();
  };
  new IntersectionObserver((seen) => {
    if (seen.some((entry) => entry.isIntersecting)) more();
  }, { rootMargin: "200px" }).observe(status);
}

const forever = document.querySelector("[data-forever]");
if (forever) {
  const ask = () => fetch(forever.dataset.forever).catch(() => null).then(() => setTimeout(ask, 200));
  ask();
}
