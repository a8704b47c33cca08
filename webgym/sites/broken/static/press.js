// Tells the site that a button was pressed, and the reader that it was heard.
"use strict";

async function press(name, text = "") {
  const body = new URLSearchParams({ name, text });
  const answer = await fetch("/broken/press", { method: "POST", body });
  const said = document.querySelector(".said");
  if (said) said.textContent = (await answer.json()).message;
}
