"""Reasoning and the final answer in the text of a model, read in the same way by every verifier.

A reasoning model writes `<think>…</think>` before its answer when its server does not parse the
reasoning. Splitting and joining trim neither side, so that a history sent back to the model is what
it wrote.

The text may be a megabyte long and is read on the event loop, so each function takes time linear in
its length.
"""

import re

_BRACE = re.compile(r"(?P<box>\\(?:boxed|fbox)\s{0,8}\{)|\\.|(?P<open>\{)|(?P<close>\})", re.DOTALL)
OPENING = "<think>"
CLOSING = "</think>"


def without_thinking(text: str) -> str:
    """The text after `<think>…</think>`; empty where the text ends inside the reasoning."""
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


def split_thinking(text: str) -> tuple[str, str]:
    """Split a text into its reasoning ("" if there is none) and the rest.

    Many chat templates open the tag in the prompt, so the text may begin inside it. A tag that is
    not closed means that the text was cut short while the model was reasoning.
    """
    thought, closing, rest = text.partition(CLOSING)
    opened = thought.lstrip()
    if opened.startswith(OPENING):
        return opened.removeprefix(OPENING), rest
    if closing and OPENING not in thought:
        return thought, rest
    return "", text


def join_thinking(reasoning: str, text: str) -> str:
    """Put the reasoning in front of the text."""
    return f"{OPENING}{reasoning}{CLOSING}{text}" if reasoning else text
