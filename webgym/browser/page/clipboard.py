"""The clipboard of one session.

Chromium has one clipboard for all of its contexts: what one session copies, another one could
paste. So the keys for copying, cutting and pasting are not sent to the browser. The selected text
is read from the page and kept here, and typed when it is pasted. Pages get the events `copy`, `cut`
and `paste`, but not those of the keys.
"""

from typing import Literal

from webgym.browser.page.input import CONTROL, META, SHIFT, InputDevices, KeyboardKey, find_key
from webgym.browser.page.script import PageScript
from webgym.browser.page.tab import Tab

LONGEST = 100_000
Operation = Literal["copy", "cut", "paste"]
_CHORDS: dict[tuple[int, str], Operation] = {
    (CONTROL, "c"): "copy",
    (CONTROL, "insert"): "copy",
    (CONTROL, "x"): "cut",
    (SHIFT, "delete"): "cut",
    (CONTROL, "v"): "paste",
    (CONTROL | SHIFT, "v"): "paste",
    (SHIFT, "insert"): "paste",
}


class SessionClipboard:
    """What a session has copied."""

    def __init__(self) -> None:
        self._text = ""

    async def press(self, keys: list[KeyboardKey], tab: Tab, deadline: float) -> None:
        """Press keys; copying and pasting is done here."""
        script, devices = PageScript(tab.world), InputDevices(tab)
        operation = _operation(keys)
        if operation is None:
            await devices.press(keys, deadline)
        elif operation == "paste":
            if not (await script.paste_text(self._text, deadline)).handled and self._text:
                await devices.insert(self._text, deadline)
        else:
            copied = await script.copy_selection(operation, deadline)
            self._text = copied.text[:LONGEST] or self._text
            if operation == "cut" and copied.text and not copied.handled:
                await devices.press([find_key("Delete")], deadline)


def _operation(keys: list[KeyboardKey]) -> Operation | None:
    held = sum({CONTROL if key.modifier == META else key.modifier for key in keys})
    others = [key.key.lower() for key in keys if not key.modifier]
    return _CHORDS.get((held, others[0])) if len(others) == 1 else None
