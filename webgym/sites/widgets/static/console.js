// Every control tells the station what it was set to.
"use strict";

const last = document.querySelector(".last");

async function set(name, value) {
  last.textContent = name + ": " + value;
  const body = new URLSearchParams({ name, value });
  await fetch("/widgets/set", { method: "POST", body, keepalive: true });
}

for (const control of document.querySelectorAll("[data-set]")) {
  control.addEventListener("change", () => {
    let value = control.value;
    if (control.multiple) value = [...control.selectedOptions].map((each) => each.value).join(", ");
    else if (control.role === "switch") value = control.checked ? "on" : "off";
    else if (control.type === "checkbox" && !control.checked) value = "";
    set(control.dataset.set, value);
  });
}

const slider = document.querySelector('input[type="range"]');
slider.addEventListener("input", () => {
  slider.nextElementSibling.textContent = slider.value;
});

for (const link of document.querySelectorAll(".menu a")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    if (link.dataset.menu) set("menu", link.dataset.menu);
  });
}

for (const item of document.querySelectorAll(".list li")) {
  const choose = () => {
    document.querySelector('.list [aria-selected="true"]')?.removeAttribute("aria-selected");
    item.setAttribute("aria-selected", "true");
    document.getElementById("harbour").textContent = item.textContent;
    set("harbour", item.textContent);
  };
  item.addEventListener("click", choose);
  item.addEventListener("keydown", (event) => {
    if (event.key === "Enter") choose();
  });
}

for (const tab of document.querySelectorAll('[role="tab"]')) {
  tab.addEventListener("click", () => {
    for (const other of document.querySelectorAll('[role="tab"]')) {
      other.setAttribute("aria-selected", String(other === tab));
      document.getElementById(other.dataset.tab).hidden = other !== tab;
    }
    set("tab", tab.dataset.tab);
  });
}

const names = ["Aud Halvorsen", "Berit Olme", "Jorn Teller", "Maike Sandor", "Sigrun Hael"];
const keeper = document.getElementById("keeper");
const keepers = document.getElementById("keepers");
keeper.addEventListener("input", () => {
  const typed = keeper.value.trim().toLowerCase();
  const found = names.filter((name) => typed && name.toLowerCase().includes(typed));
  keepers.replaceChildren(...found.map((name) => {
    const item = document.createElement("li");
    item.role = "option";
    item.tabIndex = 0;
    item.textContent = name;
    item.addEventListener("click", () => {
      keeper.value = name;
      keepers.hidden = true;
      set("keeper", name);
    });
    return item;
  }));
  keepers.hidden = found.length === 0;
  keeper.setAttribute("aria-expanded", String(!keepers.hidden));
});

for (const state of document.querySelectorAll(".stars button")) {
  state.addEventListener("click", () => {
    for (const other of document.querySelectorAll(".stars button")) {
      other.setAttribute("aria-checked", String(other === state));
    }
    set("sea_state", state.textContent);
  });
}

document.getElementById("save-note").addEventListener("click", () => {
  set("note", document.querySelector(".editor").innerText.trim());
});

const entries = document.querySelector(".inner");
for (let day = 1; day <= 31; day += 1) {
  const entry = document.createElement("button");
  entry.textContent = "Entry of " + day + " May";
  entry.addEventListener("click", () => set("log_entry", String(day)));
  entries.append(entry);
}
document.getElementById("seal").addEventListener("click", () => set("log_entry", "sealed"));

const [less, more] = document.querySelectorAll(".stepper button");
const oil = document.querySelector(".stepper output");
const stock = (change) => {
  oil.textContent = Math.max(0, Number(oil.textContent) + change);
  set("supplies", "oil " + oil.textContent);
};
less.addEventListener("click", () => stock(-1));
more.addEventListener("click", () => stock(1));

const ask = document.getElementById("ask");
document.getElementById("fog").addEventListener("click", () => ask.showModal());
ask.addEventListener("close", () => set("fog_horn", ask.returnValue || "no"));

const help = document.getElementById("help");
addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, [contenteditable]");
  if (event.key === "?" && !typing && !help.open) {
    help.showModal();
    set("shortcut", "help");
  }
});
