"""A task on the sites: its JSONL row, how an attempt at it is scored, and its recorded solution.

`website` starts with `{sites}` in the files; loading puts the address of the served sites there.

*Scoring.* The reward is 1 if every fact holds, else 0. An attempt whose session state was lost is
not scored at all. A task behind a wall never has a reward; its verdict says whether the visitor
reached the wall.

*A solution* is a list of actions that solves the task in a real browser. An action names its target
by the text that a visitor reads: the text of a link or button, the label of a field. So any program
that sees the page can play it.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from yarl import URL

from webgym.served import is_session_name
from webgym.sites import DEFAULT_BASE, PARAMETER
from webgym.sites.errors import SitesError, StateError
from webgym.sites.tasks.checks import Check, Has, HasCount, Is, Tells, at_path, why_not

PLACEHOLDER = "{sites}"
"""Stands for the address of the test sites in the rows of the bundled tasks."""
Split: TypeAlias = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")
_FOLDER = Path(__file__).parent
_FILE = Path(__file__).with_name("solutions.jsonl")


class RubricGroup(msgspec.Struct, frozen=True):
    """A part of the rubric: what is asked for, and the facts that show it was done."""

    description: str
    facts: tuple[str, ...]


class SiteTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task. `blocked`: it ends at a wall that no visitor gets past.

    `verifier` says that the sites themselves check the task, and `truth` has the checks.
    """

    task_id: str
    task_name: str
    website: str
    domain: str
    subdomain: str
    difficulty: int
    evaluator_reference: tuple[RubricGroup, ...]
    definite_answer: str | None
    verifier: Literal["sites"]
    truth: tuple[Check, ...]
    blocked: bool = False


def load_tasks(split: Split, base_url: str = DEFAULT_BASE) -> list[SiteTask]:
    """The tasks of a split, to be done on the sites at `base_url`. Raises SitesError."""
    if split not in SPLITS:
        raise SitesError(f"there is no split {split!r}: give one of {', '.join(SPLITS)}")
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise SitesError(f"{base_url!r} is not a base URL: give one such as {DEFAULT_BASE}")
    base = base_url.rstrip("/")
    decoder = msgspec.json.Decoder(SiteTask)
    rows = (_FOLDER / f"{split}.jsonl").read_bytes().splitlines()
    tasks = [decoder.decode(row) for row in rows]
    return [
        msgspec.structs.replace(task, website=task.website.replace(PLACEHOLDER, base, 1))
        for task in tasks
    ]


def start_url(task: SiteTask, session: str) -> str:
    """The start page in a session, whose state is then at `/_truth/SESSION`. Raises SitesError."""
    if not is_session_name(session):
        raise SitesError(f"{session!r} is not a session name: give 1 to 64 letters and digits")
    return str(URL(task.website).update_query({PARAMETER: session}))


class FactResult(msgspec.Struct, frozen=True):
    """Whether one fact holds, and if not, why."""

    fact: str
    passed: bool
    reason: str = ""


class SiteVerdict(msgspec.Struct, frozen=True):
    """The score of an attempt."""

    reward: int
    facts: tuple[FactResult, ...]
    blocked: bool = False


def verify(task: SiteTask, answer: str | None, state: Mapping[str, object]) -> SiteVerdict:
    """Score an attempt; `state` is the response of `/_truth/SESSION`. Raises StateError.

    `answer` is None if the attempt ended without one.
    """
    if task.blocked or any(isinstance(check, Tells | Is | Has | HasCount) for check in task.truth):
        _require_state(state)
    if task.blocked:
        walls = at_path(state, "captcha.walls")
        return SiteVerdict(0, (), blocked=isinstance(walls, int) and walls > 0)
    facts = tuple(_result(check, answer, state) for check in task.truth)
    return SiteVerdict(int(bool(facts) and all(fact.passed for fact in facts)), facts)


def _result(check: Check, answer: str | None, state: object) -> FactResult:
    reason = why_not(check, answer, state)
    return FactResult(check.fact, reason is None, reason or "")


def _require_state(state: Mapping[str, object]) -> None:
    if not isinstance(state.get("session"), str):
        raise StateError("this is not the state of a session: ask /_truth/SESSION for it")
    if state.get("lost"):
        raise StateError(
            f"the sites lost the state of session {state['session']}: they were restarted, or had "
            "too many visitors; run the attempt again"
        )


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
