"""The script that runs in every document before the scripts of the page, in their world.

*Dialogs* are answered before they open. A native dialog stops the page until it is answered, and
one that is open while the page navigates stops its tab for good. So `alert`, `confirm` and `prompt`
are replaced by functions that answer at once. A document that opens dialogs without end gets an
error. Only the question whether to leave a page (`beforeunload`) is still a native dialog.

The replaced functions report over a binding: a function that Chromium puts into the page, and whose
calls reach us as events, even if the page navigates right afterwards. Chromium adds it only after
the first scripts of a page have run; dialogs of those are reported then. The property that receives
the binding hides it, so that the page cannot use it.

*Pointer lock* is not available. A browser without a screen moves a locked pointer back to the
middle with an event that moves it again, and so loops and blocks all other sessions. Pages get the
answer that they would get on a device without a mouse.

*Timers, shadow roots and listeners.* Which timers are pending, what is inside a closed shadow root,
and which elements listen for clicks, only the world of the page can know. So they are noted here,
and our own script in its isolated world (`scripts/early.js`) asks for them with an event whose name
pages cannot know. Events carry plain data from one world to the other, and elements: the submitter
of a `SubmitEvent`, the related target of a `MouseEvent`. They are sent to `performance`, an object
of every window that `document.open` does not clear.
"""

import secrets

import msgspec

from webgym.browser.page.timers import NOTED_TIMERS, ScriptTemplate

TEXT_LIMIT = 500
MAX_DIALOGS = 100
"""Dialogs that one document may open; further calls throw."""
MAX_REPORTED = 20
BINDING = f"_{secrets.token_hex(8)}"
CHANNEL = secrets.token_hex(8)
"""The name of the events between the early script and ours."""

CLICKS = (
    "click", "dblclick", "mousedown", "mouseup", "pointerdown", "pointerup", "touchstart",
    "contextmenu", "drop",
)  # fmt: skip
"""Events whose listeners show that an element can be used."""


_DIALOGS = ScriptTemplate(
    """(() => {
  const found = Object.getOwnPropertyDescriptor(window, "@name");
  if (found?.set) return;
  const { stringify } = JSON;
  const slice = Function.prototype.call.bind(String.prototype.slice);
  let report = found?.value;
  let unreported = [];
  let count = 0;
  delete window["@name"];
  Object.defineProperty(window, "@name", {
    get: () => undefined,
    set: (given) => {
      if (report || typeof given !== "function") return;
      report = given;
      for (let index = 0; index < unreported.length; index += 1) report(unreported[index]);
      unreported = [];
    },
  });
  const open = (type, message, answer) => {
    count += 1;
    if (count > @limit) throw new Error(`too many dialogs: ${type}`);
    const dialog = stringify([type, slice(`${message ?? ""}`, 0, @text), answer ?? null]);
    if (count > @reported) return answer;
    if (report) report(dialog);
    else unreported[unreported.length] = dialog;
    return answer;
  };
  const accepts = @accepts;
  window.alert = function alert(message) { return open("alert", message, undefined); };
  window.confirm = function confirm(message) { return open("confirm", message, accepts); };
  window.prompt = function prompt(message, initial) {
    return open("prompt", message, accepts ? slice(`${initial ?? ""}`, 0) : null);
  };
  window.print = function print() { return open("print", "", undefined); };
})()"""
)

_POINTER_LOCK = """(() => {
  const refuse = Promise.reject.bind(Promise);
  Element.prototype.requestPointerLock = function requestPointerLock() {
    setTimeout(() => document.dispatchEvent(new Event("pointerlockerror")), 0);
    return refuse(new DOMException("The pointer cannot be locked.", "NotSupportedError"));
  };
})()"""

# Functions are taken at the start, before a page can replace them.
_NOTES = ScriptTemplate(
    """(() => {
  if (Object.getOwnPropertyDescriptor(window, "@name")?.set) return;
@timers
  const [Submit, Mouse] = [SubmitEvent, MouseEvent];
  const [Any, Html] = [Element, HTMLElement];
  const find = bound(DocumentFragment.prototype.querySelectorAll);
  const is = bound(Html[Symbol.hasInstance]);
  const [strong, weak] = [bound(WeakRef.prototype.deref), WeakRef];

  let roots = [];
  replace(Element.prototype, "attachShadow", (target, self, given) => {
    const root = apply(target, self, given);
    if (roots.length < 5000) roots[roots.length] = new weak(root);
    return root;
  });
  // Hands over the roots by an element in each; an empty one waits for its first element.
  const handOver = () => {
    const left = [];
    for (let index = 0; index < roots.length; index += 1) {
      const root = strong(roots[index]);
      if (!root) continue;
      const elements = find(root, "*");
      let submitter = null;
      for (let at = 0; at < elements.length && at < 50 && !submitter; at += 1) {
        if (is(Html, elements[at])) submitter = elements[at];
      }
      if (submitter) send(new Submit("@channel-root", { submitter }));
      else left[left.length] = roots[index];
    }
    roots = left;
  };
  let used = [];
  const clicks = { __proto__: null };
  for (const name of [@clicks]) clicks[name] = true;
  const note = (element) => {
    if (used.length < 20000 && is(Any, element)) used[used.length] = new weak(element);
  };
  const passOn = () => {
    for (let index = 0; index < used.length; index += 1) {
      const element = strong(used[index]);
      if (!element) continue;
      const name = "@channel-used";
      if (is(Html, element)) send(new Submit(name, { submitter: element }));
      else send(new Mouse(name, { relatedTarget: element }));
    }
    used = [];
  };
  replace(EventTarget.prototype, "addEventListener", (target, self, given) => {
    if (typeof given[0] === "string" && clicks[given[0]] && given[1]) note(self);
    return apply(target, self, given);
  });
  for (const owner of [HTMLElement.prototype, SVGElement.prototype]) {
    for (const name in clicks) {
      const found = Object.getOwnPropertyDescriptor(owner, `on${name}`);
      if (!found?.set) continue;
      const set = new Proxy(found.set, {
        apply: (target, self, given) => {
          if (given[0]) note(self);
          return apply(target, self, given);
        },
      });
      Object.defineProperty(owner, `on${name}`, { ...found, set });
    }
  }
  listen("@channel", (event) => {
    const noted = timersSince(Number(detailOf(event)));
    if (roots.length) handOver();
    if (used.length) passOn();
    send(new Custom("@channel-timers", { detail: noted }));
  });
})()"""
).substitute(
    name=BINDING,
    channel=CHANNEL,
    timers=NOTED_TIMERS,
    clicks=", ".join(f'"{name}"' for name in CLICKS),
)


def early_script(*, accepts_dialogs: bool = True) -> str:
    """The script; `accepts_dialogs` is the answer to `confirm` and `prompt`."""
    dialogs = _DIALOGS.substitute(
        name=BINDING,
        reported=MAX_REPORTED,
        limit=MAX_DIALOGS,
        text=TEXT_LIMIT,
        accepts="true" if accepts_dialogs else "false",
    )
    return f"{_NOTES};{dialogs};{_POINTER_LOCK}"


class _Called(msgspec.Struct):
    name: str
    payload: str


_READ_CALLED = msgspec.json.Decoder(_Called).decode
_READ_DIALOG_CALL = msgspec.json.Decoder(tuple[str, str, bool | str | None]).decode


def read_dialog(params: msgspec.Raw) -> str | None:
    """The dialog that a call of the binding reports, and its answer, as text."""
    called = _READ_CALLED(params)
    if called.name != BINDING:
        return None
    try:
        kind, message, answer = _READ_DIALOG_CALL(called.payload)
    except msgspec.DecodeError:
        return None
    return describe_dialog(kind[:20], message[:TEXT_LIMIT], answer)


def describe_dialog(kind: str, message: str, answer: bool | str | None) -> str:
    """A dialog as an agent reads it: its text, and what was answered."""
    match answer:
        case None if kind == "prompt":
            said = "answered Cancel"
        case None:
            return f"{kind}: {message}"
        case bool():
            said = "answered OK" if answer else "answered Cancel"
        case _:
            said = f"answered {answer[:100]!r}"
    return f"{kind}: {message} ({said})"
