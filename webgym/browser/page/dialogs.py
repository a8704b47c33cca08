"""Dialogs of a page, answered before they open.

A native dialog stops the page until it is answered, and one that is open while the page navigates
stops its tab for good. So `alert`, `confirm` and `prompt` are replaced, in every frame and before
the page's own scripts run, by functions that answer at once as a person who agrees would. A
document that asks without end is made to fail at it. Only the question whether to leave a page
(`beforeunload`) is still the browser's own.

What was asked is told over a binding: a function that Chromium puts into the page, and whose calls
come to us as events, also when the page goes on to another right after. It is put there only after
a page's first scripts have run; what those asked is told then. The property that it is put into
catches it, so that the page never gets hold of it.
"""

import secrets
from string import Template

import msgspec

MAX_DIALOGS = 100
"""Calls that one document may make; more of them throw."""
MAX_TOLD = 20
TEXT_LIMIT = 500
BINDING = f"_{secrets.token_hex(8)}"


class _Template(Template):
    delimiter = "@"


SCRIPT = _Template(
    """(() => {
  const found = Object.getOwnPropertyDescriptor(window, "@name");
  if (found?.set) return;
  const { stringify } = JSON;
  const slice = Function.prototype.call.bind(String.prototype.slice);
  let tell = found?.value;
  let untold = [];
  let count = 0;
  delete window["@name"];
  Object.defineProperty(window, "@name", {
    get: () => undefined,
    set: (given) => {
      if (tell || typeof given !== "function") return;
      tell = given;
      for (let index = 0; index < untold.length; index += 1) tell(untold[index]);
      untold = [];
    },
  });
  const ask = (type, message, answer) => {
    count += 1;
    if (count > @limit) throw new Error(`too many dialogs: ${type}`);
    const said = stringify([type, slice(`${message ?? ""}`, 0, @text)]);
    if (count > @told) return answer;
    if (tell) tell(said);
    else untold[untold.length] = said;
    return answer;
  };
  window.alert = function alert(message) { return ask("alert", message, undefined); };
  window.confirm = function confirm(message) { return ask("confirm", message, true); };
  window.prompt = function prompt(message, initial) {
    return ask("prompt", message, `${initial ?? ""}`);
  };
  window.print = function print() { return ask("print", "", undefined); };
})()"""
).substitute(name=BINDING, told=MAX_TOLD, limit=MAX_DIALOGS, text=TEXT_LIMIT)


class _Called(msgspec.Struct):
    name: str
    payload: str


_READ_CALLED = msgspec.json.Decoder(_Called).decode
_READ_ASKED = msgspec.json.Decoder(tuple[str, str]).decode


def read_dialog(params: msgspec.Raw) -> str | None:
    """What the page asked, in words, from a call of the binding."""
    called = _READ_CALLED(params)
    if called.name != BINDING:
        return None
    try:
        kind, message = _READ_ASKED(called.payload)
    except msgspec.DecodeError:
        return None
    return f"{kind[:20]}: {message[:TEXT_LIMIT]}"
