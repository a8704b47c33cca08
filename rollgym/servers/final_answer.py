"""Finding the final answer in what a model wrote, in the same way for every verifier.

The text may be a megabyte of anything and is read on the event loop, so each function takes time
linear in its length.
"""

import re

from rollgym.servers.responses.thinking import split_thinking

_BRACE = re.compile(r"(?P<box>\\(?:boxed|fbox)\s{0,8}\{)|\\.|(?P<open>\{)|(?P<close>\})", re.DOTALL)


def without_thinking(text: str) -> str:
    """The text after `<think>…</think>`; nothing of a text that was cut short in its thoughts."""
    return split_thinking(text)[1]


def last_boxed(text: str) -> str | None:
    r"""What the last complete `\boxed{…}` holds, the outermost of nested ones; None without one."""
    opened: list[int | None] = []
    found: tuple[int, int] | None = None
    for brace in _BRACE.finditer(text):
        if brace["box"]:
            opened.append(brace.end())
        elif brace["open"]:
            opened.append(None)
        elif brace["close"] and opened:
            start = opened.pop()
            if start is not None:
                found = (start, brace.start())
    return text[slice(*found)].strip() if found else None
