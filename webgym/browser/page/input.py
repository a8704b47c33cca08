"""Mouse and keyboard: input events as the browser makes them for a person.

The events of one gesture are sent without waiting in between; Chromium handles them in order. The
answer to an event means that the page has handled it, and may never come if the event makes the
page navigate. So only the answer to the last event is awaited, for a moment: the consequences are
waited for by settling. Keys have the names that people and models use for them.
"""

import asyncio
from contextlib import suppress

import msgspec

from webgym.browser.chromium.connection import CallError
from webgym.browser.contract.commands import Direction, MouseButton
from webgym.browser.contract.errors import CommandError
from webgym.browser.page.elements import DocumentGoneError
from webgym.browser.page.tab import Tab

ALT, CONTROL, META, SHIFT = 1, 2, 4, 8
"""The bits of the modifiers in the DevTools protocol."""


class KeyboardKey(msgspec.Struct, frozen=True):
    """A key for the browser. `text` is what it types; `modifier` is its bit if it is a modifier."""

    key: str
    code: str
    number: int
    text: str = ""
    modifier: int = 0


_NAMED = {
    "enter": KeyboardKey("Enter", "Enter", 13, "\r"),
    "tab": KeyboardKey("Tab", "Tab", 9),
    "escape": KeyboardKey("Escape", "Escape", 27),
    "backspace": KeyboardKey("Backspace", "Backspace", 8),
    "delete": KeyboardKey("Delete", "Delete", 46),
    "insert": KeyboardKey("Insert", "Insert", 45),
    "space": KeyboardKey(" ", "Space", 32, " "),
    "home": KeyboardKey("Home", "Home", 36),
    "end": KeyboardKey("End", "End", 35),
    "pageup": KeyboardKey("PageUp", "PageUp", 33),
    "pagedown": KeyboardKey("PageDown", "PageDown", 34),
    "arrowleft": KeyboardKey("ArrowLeft", "ArrowLeft", 37),
    "arrowup": KeyboardKey("ArrowUp", "ArrowUp", 38),
    "arrowright": KeyboardKey("ArrowRight", "ArrowRight", 39),
    "arrowdown": KeyboardKey("ArrowDown", "ArrowDown", 40),
    "contextmenu": KeyboardKey("ContextMenu", "ContextMenu", 93),
    "alt": KeyboardKey("Alt", "AltLeft", 18, modifier=ALT),
    "control": KeyboardKey("Control", "ControlLeft", 17, modifier=CONTROL),
    "meta": KeyboardKey("Meta", "MetaLeft", 91, modifier=META),
    "shift": KeyboardKey("Shift", "ShiftLeft", 16, modifier=SHIFT),
    **{
        f"f{number}": KeyboardKey(f"F{number}", f"F{number}", 111 + number)
        for number in range(1, 13)
    },
}
_ALIASES = {
    "return": "enter",
    "esc": "escape",
    "del": "delete",
    "ins": "insert",
    "spacebar": "space",
    "pgup": "pageup",
    "pgdn": "pagedown",
    "pgdown": "pagedown",
    "left": "arrowleft",
    "up": "arrowup",
    "right": "arrowright",
    "down": "arrowdown",
    "menu": "contextmenu",
    "option": "alt",
    "ctrl": "control",
    "cmd": "meta",
    "command": "meta",
    "win": "meta",
    "windows": "meta",
    "super": "meta",
}
_PUNCTUATION = {
    "`": ("Backquote", 192), "~": ("Backquote", 192), "-": ("Minus", 189), "_": ("Minus", 189),
    "=": ("Equal", 187), "+": ("Equal", 187), "[": ("BracketLeft", 219), "{": ("BracketLeft", 219),
    "]": ("BracketRight", 221), "}": ("BracketRight", 221), "\\": ("Backslash", 220),
    "|": ("Backslash", 220), ";": ("Semicolon", 186), ":": ("Semicolon", 186),
    "'": ("Quote", 222), '"': ("Quote", 222), ",": ("Comma", 188), "<": ("Comma", 188),
    ".": ("Period", 190), ">": ("Period", 190), "/": ("Slash", 191), "?": ("Slash", 191),
    ")": ("Digit0", 48), "!": ("Digit1", 49), "@": ("Digit2", 50), "#": ("Digit3", 51),
    "$": ("Digit4", 52), "%": ("Digit5", 53), "^": ("Digit6", 54), "&": ("Digit7", 55),
    "*": ("Digit8", 56), "(": ("Digit9", 57),
}  # fmt: skip


def find_key(name: str) -> KeyboardKey:
    """The key of this name or character, in any case. Raises CommandError for an unknown one."""
    if len(name) == 1:
        return character_key(name)
    plain = name.strip().lower().replace("_", "").replace("-", "").replace(" ", "")
    key = _NAMED.get(_ALIASES.get(plain, plain))
    if key is None:
        known = ", ".join(key.key for key in _NAMED.values() if key.key.strip())
        raise CommandError(f"unknown key {name[:40]!r}: use one character or one of {known}")
    return key


def find_keys(names: tuple[str, ...]) -> list[KeyboardKey]:
    """The keys of a combination, which may also be one text: `Control+a`."""
    parts = [
        part
        for name in names
        for part in (name.split("+") if len(name) > 1 and not name.endswith("+") else [name])
    ]
    return [find_key(part) for part in parts]


def character_key(character: str) -> KeyboardKey:
    """The key that types one character, on a US keyboard if that has it."""
    if character in "\r\n":
        return _NAMED["enter"]
    if character == "\t":
        return _NAMED["tab"]
    if character == " ":
        return _NAMED["space"]
    if character.isascii() and character.isalpha():
        return KeyboardKey(character, f"Key{character.upper()}", ord(character.upper()), character)
    if character.isascii() and character.isdigit():
        return KeyboardKey(character, f"Digit{character}", ord(character), character)
    code, number = _PUNCTUATION.get(character, ("", 0))
    return KeyboardKey(character, code, number, character)


HANDLED_SECONDS = 2.0
TYPED_BY_KEYS = 300
"""Longer texts are inserted as a whole, like pasted text."""

DRAG_STEPS = 10
_BUTTONS: dict[MouseButton, int] = {"left": 1, "right": 2, "middle": 4}
"""The bits of the pressed buttons in the DevTools protocol."""
_WHEEL = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
InputEvent = tuple[str, dict[str, object]]


class InputDevices:
    """The mouse and keyboard of one tab."""

    def __init__(self, tab: Tab) -> None:
        self._tab = tab

    async def click(
        self, x: float, y: float, deadline: float, button: MouseButton = "left", clicks: int = 1
    ) -> None:
        events = [_mouse("mouseMoved", x, y)]
        for count in range(1, clicks + 1):
            pressed = {"button": button, "clickCount": count}
            events.append(_mouse("mousePressed", x, y, buttons=_BUTTONS[button], **pressed))
            events.append(_mouse("mouseReleased", x, y, **pressed))
        await self._send(events, deadline)

    async def drag(
        self, start: tuple[float, float], end: tuple[float, float], deadline: float
    ) -> None:
        """Press at one point, move to the other in steps, and release.

        What the page lets people drag natively (`draggable`) is dragged by the browser, which
        reports that to `Tab.dragged` instead of starting a drag of the machine.
        """
        tab = self._tab
        tab.forget_drag()
        await tab.call("Input.setInterceptDrags", {"enabled": True}, deadline=deadline)
        try:
            pressed = _mouse("mousePressed", *start, button="left", buttons=1, clickCount=1)
            await self._send([_mouse("mouseMoved", *start), pressed], deadline)
            for x, y in _way(start, end):
                if tab.dragged is not None:
                    break
                await self._send([_mouse("mouseMoved", x, y, button="left", buttons=1)], deadline)
            released = [_mouse("mouseReleased", *end, button="left", clickCount=1)]
            dragged = tab.dragged
            if dragged is not None:
                kinds = ("dragEnter", "dragOver", "drop")
                released = [_drag(kind, *end, dragged) for kind in kinds]
            await self._send(released, deadline)
        finally:
            tab.send("Input.setInterceptDrags", {"enabled": False})

    async def hover(self, x: float, y: float, deadline: float) -> None:
        await self._send([_mouse("mouseMoved", x, y)], deadline)

    async def turn_wheel(
        self, x: float, y: float, direction: Direction, pixels: float, deadline: float
    ) -> None:
        across, down = _WHEEL[direction]
        wheel = {"deltaX": across * pixels, "deltaY": down * pixels}
        await self._send(
            [_mouse("mouseMoved", x, y), _mouse("mouseWheel", x, y, **wheel)], deadline
        )

    async def press(self, keys: list[KeyboardKey], deadline: float) -> None:
        """Press the keys in order, hold them, then release them in reverse order."""
        held, events = 0, []
        for key in keys:
            held |= key.modifier
            events.append(_key_down(key, held))
        for key in reversed(keys):
            held &= ~key.modifier
            events.append(_key_up(key, held))
        await self._send(events, deadline)

    async def type(self, text: str, deadline: float) -> None:
        """Type text. Line breaks and tabs are inserted, because their keys would do more."""
        if len(text) > TYPED_BY_KEYS:
            await self._send([("Input.insertText", {"text": text})], deadline)
            return
        events: list[InputEvent] = []
        for character in text.replace("\r\n", "\n"):
            key = character_key(character)
            if key.code and character not in "\r\n\t":
                events += [_key_down(key, 0), _key_up(key, 0)]
            else:
                events.append(("Input.insertText", {"text": character}))
        await self._send(events, deadline)

    async def insert(self, text: str, deadline: float) -> None:
        """Insert text as a whole, like pasted text."""
        await self._send([("Input.insertText", {"text": text})], deadline)

    async def _send(self, events: list[InputEvent], deadline: float) -> None:
        """Raises PageCrashedError, and the errors that end the session.

        An event without an answer is not an error, and neither is one that closes its tab.
        """
        for method, params in events[:-1]:
            self._tab.send(method, params)
        soon = min(deadline, asyncio.get_running_loop().time() + HANDLED_SECONDS)
        for method, params in events[-1:]:
            with suppress(TimeoutError, CallError, DocumentGoneError):
                await self._tab.call(method, params, deadline=soon)


def check_in_view(tab: Tab, x: float, y: float) -> None:
    """Raises CommandError for a point outside of the viewport."""
    viewport = tab.viewport
    if x > viewport.width or y > viewport.height:
        size = f"{viewport.width} x {viewport.height}"
        raise CommandError(f"the point {x:g}, {y:g} is outside of the viewport of {size}")


def _mouse(kind: str, x: float, y: float, **more: object) -> InputEvent:
    return "Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more}


def _drag(kind: str, x: float, y: float, data: msgspec.Raw) -> InputEvent:
    return "Input.dispatchDragEvent", {"type": kind, "x": x, "y": y, "data": data}


def _way(start: tuple[float, float], end: tuple[float, float]) -> list[tuple[float, float]]:
    """Points from one to the other, the last one twice: some pages only look at the second."""
    (x, y), (to_x, to_y) = start, end
    parts = [step / DRAG_STEPS for step in range(1, DRAG_STEPS + 1)]
    return [*((x + part * (to_x - x), y + part * (to_y - y)) for part in parts), end]


def _key_down(key: KeyboardKey, held: int) -> InputEvent:
    types = key.text and not held & (CONTROL | META)
    params: dict[str, object] = {
        "type": "keyDown" if types else "rawKeyDown",
        "modifiers": held,
        "key": key.key,
        "code": key.code,
        "windowsVirtualKeyCode": key.number,
    }
    if types:
        params |= {"text": key.text, "unmodifiedText": key.text}
    elif held & (CONTROL | META) and key.key.lower() == "a":
        params["commands"] = ["selectAll"]
    return "Input.dispatchKeyEvent", params


def _key_up(key: KeyboardKey, held: int) -> InputEvent:
    return "Input.dispatchKeyEvent", {
        "type": "keyUp",
        "modifiers": held,
        "key": key.key,
        "code": key.code,
        "windowsVirtualKeyCode": key.number,
    }
