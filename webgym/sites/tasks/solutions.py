"""Recorded solutions: for each task a list of actions that solves it in a real browser.

An action names its target by the text that a visitor reads: the text of a link or button, the label
of a field. So any program that sees the page can play it.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from webgym.sites.errors import SitesError

_FILE = Path(__file__).with_name("solutions.jsonl")


class ActionKind(StrEnum):
    """Kinds of actions. In the file, an action is an object with one kind and its operand."""

    CLICK = "click"  # target
    HOVER = "hover"  # target
    TYPE = "type"  # [target, text]; replaces the old text and presses Enter
    SELECT = "select"  # [target, text of the option]
    PRESS = "press"  # name of a key
    SCROLL = "scroll"  # "down" or "up"
    BACK = "back"  # true
    SEE = "see"  # text to read: wait for it, or scroll to it
    ANSWER = "answer"  # text; ends the task


_PAIRS = (ActionKind.TYPE, ActionKind.SELECT)
_TARGETS = (ActionKind.CLICK, ActionKind.HOVER)


class RecordedAction(msgspec.Struct, frozen=True):
    """One action; `target` or `value` is empty if the kind has none."""

    kind: ActionKind
    target: str = ""
    value: str = ""


class Solution(msgspec.Struct, frozen=True):
    """The actions that solve a task, from its start page on."""

    task_id: str
    actions: tuple[RecordedAction, ...]

    @property
    def answer(self) -> str | None:
        last = self.actions[-1]
        return last.value if last.kind is ActionKind.ANSWER else None


class _SolutionRow(msgspec.Struct, frozen=True):
    task_id: str
    actions: tuple[dict[ActionKind, str | bool | tuple[str, str]], ...]


def load_solutions() -> dict[str, Solution]:
    """All recorded solutions, by task id."""
    decoder = msgspec.json.Decoder(_SolutionRow)
    rows = [decoder.decode(line) for line in _FILE.read_bytes().splitlines()]
    return {
        row.task_id: Solution(row.task_id, tuple(action_of(each) for each in row.actions))
        for row in rows
    }


def action_of(written: Mapping[ActionKind, str | bool | tuple[str, str]]) -> RecordedAction:
    """Read an action of the file. Raises SitesError."""
    if len(written) != 1:
        raise SitesError(f"an action must have one kind, not {len(written)}: {dict(written)}")
    [(kind, operand)] = written.items()
    match operand:
        case (target, value) if kind in _PAIRS:
            return RecordedAction(kind, target, value)
        case str() if kind in _TARGETS:
            return RecordedAction(kind, operand)
        case True if kind is ActionKind.BACK:
            return RecordedAction(kind)
        case str() if kind not in (*_PAIRS, ActionKind.BACK):
            return RecordedAction(kind, value=operand)
        case _:
            raise SitesError(f"the action {kind} cannot have the operand {operand!r}")
