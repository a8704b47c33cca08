"""Mouse and keyboard: input as the browser itself makes it out of a person's.

The events of one gesture are sent one after another without waiting in between; Chromium handles
them in order. The answer to an event says that the page has handled it, and may never come when
the event makes the page navigate away. So only that of the last event is awaited, for a moment:
what follows is seen by settling.
"""

import asyncio
from contextlib import suppress

from webgym.browser.chromium.connection import CallError
from webgym.browser.contract.commands import Direction
from webgym.browser.page.errors import DocumentGoneError
from webgym.browser.page.keys import CONTROL, META, Key, character_key
from webgym.browser.page.tab import Tab

HANDLED_WITHIN = 2.0
TYPED_BY_KEYS = 300
"""Longer texts are put in as a whole, as pasting does."""

_WHEEL = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
Event = tuple[str, dict[str, object]]


class Hands:
    """The mouse and keyboard of one tab."""

    def __init__(self, tab: Tab) -> None:
        self._tab = tab

    async def click(self, x: float, y: float, deadline: float) -> None:
        button = {"button": "left", "clickCount": 1}
        await self._make(
            [
                _mouse("mouseMoved", x, y),
                _mouse("mousePressed", x, y, buttons=1, **button),
                _mouse("mouseReleased", x, y, **button),
            ],
            deadline,
        )

    async def hover(self, x: float, y: float, deadline: float) -> None:
        await self._make([_mouse("mouseMoved", x, y)], deadline)

    async def turn_wheel(
        self, x: float, y: float, direction: Direction, pixels: float, deadline: float
    ) -> None:
        across, down = _WHEEL[direction]
        wheel = {"deltaX": across * pixels, "deltaY": down * pixels}
        await self._make(
            [_mouse("mouseMoved", x, y), _mouse("mouseWheel", x, y, **wheel)], deadline
        )

    async def press(self, keys: list[Key], deadline: float) -> None:
        """Press the keys in order, holding each, then let go of them."""
        held, events = 0, []
        for key in keys:
            held |= key.modifier
            events.append(_key_down(key, held))
        for key in reversed(keys):
            held &= ~key.modifier
            events.append(_key_up(key, held))
        await self._make(events, deadline)

    async def type(self, text: str, deadline: float) -> None:
        """Put text in. Enter and Tab would do more than that, so they are put in as characters."""
        if len(text) > TYPED_BY_KEYS:
            await self._make([("Input.insertText", {"text": text})], deadline)
            return
        events: list[Event] = []
        for character in text.replace("\r\n", "\n"):
            key = character_key(character)
            if key.code and character not in "\r\n\t":
                events += [_key_down(key, 0), _key_up(key, 0)]
            else:
                events.append(("Input.insertText", {"text": character}))
        await self._make(events, deadline)

    async def _make(self, events: list[Event], deadline: float) -> None:
        """Raises PageCrashedError, and what ends the session.

        An event that nobody answers is fine, and so is one that closes its tab.
        """
        for method, params in events[:-1]:
            self._tab.send(method, params)
        soon = min(deadline, asyncio.get_running_loop().time() + HANDLED_WITHIN)
        for method, params in events[-1:]:
            with suppress(TimeoutError, CallError, DocumentGoneError):
                await self._tab.call(method, params, deadline=soon)


def _mouse(kind: str, x: float, y: float, **more: object) -> Event:
    return "Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more}


def _key_down(key: Key, held: int) -> Event:
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


def _key_up(key: Key, held: int) -> Event:
    return "Input.dispatchKeyEvent", {
        "type": "keyUp",
        "modifiers": held,
        "key": key.key,
        "code": key.code,
        "windowsVirtualKeyCode": key.number,
    }
