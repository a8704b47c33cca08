// The box turns, a puzzle comes, and no answer is right.
"use strict";

const box = document.getElementById("box");
const puzzle = document.getElementById("puzzle");
const tiles = puzzle.querySelector(".tiles");
const result = document.getElementById("result");
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
let round = 0;

function deal() {
  tiles.replaceChildren(...Array.from({ length: 9 }, (_, place) => {
    const tile = document.createElement("button");
    tile.type = "button";
    tile.setAttribute("aria-pressed", "false");
    tile.setAttribute("aria-label", "Square " + (place + 1));
    const picture = document.createElement("img");
    picture.src = "/captcha/picture/" + ((place * 5 + round * 7) % 12) + ".svg";
    picture.alt = "";
    tile.append(picture);
    tile.addEventListener("click", () => {
      tile.setAttribute("aria-pressed", String(tile.getAttribute("aria-pressed") !== "true"));
    });
    return tile;
  }));
}

document.getElementById("check").addEventListener("click", async () => {
  box.classList.add("busy");
  document.getElementById("says").textContent = "Verifying…";
  await pause(900);
  deal();
  puzzle.hidden = false;
});

document.getElementById("verify").addEventListener("click", async () => {
  const answer = await fetch("/captcha/verify", { method: "POST" });
  const { message } = await answer.json();
  round += 1;
  result.textContent = message;
  deal();
});
