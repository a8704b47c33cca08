// Pictures of a rollout: fetched from the viewer's own server when they come near, in a box of their
// size so that nothing moves, and larger when they are clicked.

import { h } from "./dom.js";
import { withQuery } from "./api.js";
import { button } from "./buttons.js";

const MISSING = "Cannot show this picture: its file is missing or is not a picture.";

// The address of a picture; "" if it is not in this source.
function pictureAddress(image, { paths, id }) {
  if (image.file) return paths.file(image.file);
  return image.path ? withQuery(paths.picture(id), { path: image.path }) : "";
}

// The element of a picture. A picture on another server is not fetched; its address is shown.
export function picture(image, place, { alt = "Picture", lazy = true } = {}) {
  const src = pictureAddress(image, place);
  if (!src) return noteOf(`Picture on another server, not loaded: ${image.note || "no address"}`);
  const failed = () => element.replaceWith(noteOf(MISSING));
  const element = h("img", {
    src,
    alt,
    width: image.width,
    height: image.height,
    loading: lazy ? "lazy" : null,
    decoding: "async",
    draggable: "false",
    on: { error: failed },
  });
  return element;
}

function noteOf(words) {
  return h("p", { class: "picture-note" }, words);
}

// A picture that opens a larger one.
export function enlargeable(image, place, alt = "Picture") {
  const element = picture(image, place, { alt });
  if (element.tagName !== "IMG") return element;
  const className = image.width ? "picture-button" : "picture-button is-unsized";
  return button(element, () => enlarge(image, place, alt), { class: className, title: "Show larger" });
}

export function enlarge(image, place, alt) {
  const on = { click: () => dialog.close(), close: () => dialog.remove() };
  const dialog = h("dialog", { class: "larger", "aria-label": alt, on },
    h("button", { class: "larger-close", type: "button", autofocus: true }, "Close"),
    picture(image, place, { alt, lazy: false }));
  document.body.append(dialog);
  dialog.showModal();
}
