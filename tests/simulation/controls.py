"""What is changed while a simulated collection runs, and the log of it."""

from collections.abc import Callable
from enum import StrEnum
from random import Random

import msgspec

from rollgym.engine import Control

LATEST = 6.0
LONGEST_PAUSE = 3.0
DEADLINE_AFTER = 0.5
HIGHEST_LIMIT = 6
PAUSED = "paused by the plan"


class Change(StrEnum):
    """A kind of change."""

    PAUSE = "pause"
    RESUME = "resume"
    CONCURRENCY = "concurrency"
    RETRY_FAILED = "retry failed"
    RETRY_ALL = "retry failed and omitted"
    CUT = "cut"
    DROP = "drop"
    POLICY = "policy"
    DEADLINE = "deadline"


class LiveChange(msgspec.Struct, frozen=True):
    """A change at a time. `value` is a limit (0: that of the policy), or chooses rollouts."""

    at: float
    change: Change
    value: int = 0

    @property
    def name(self) -> str:
        return f"{self.change} {self.value}" if self.change is Change.CONCURRENCY else self.change


def draw_changes(random: Random, *, deadline: bool) -> tuple[LiveChange, ...]:
    """Some changes, in the order of time; what is paused goes on later."""
    kinds = [change for change in Change if change is not Change.RESUME]
    if not deadline:
        kinds.remove(Change.DEADLINE)
    changes: list[LiveChange] = []
    for _ in range(random.choice((1, 2, 2, 4))):
        at, change = random.uniform(0.0, LATEST), random.choice(kinds)
        value = random.choice((0, 1, 2, HIGHEST_LIMIT))
        changes.append(LiveChange(at, change, value))
        if change is Change.DEADLINE:
            kinds.remove(change)  # a second one would replace it
        if change is Change.PAUSE:
            changes.append(LiveChange(at + random.uniform(0.0, LONGEST_PAUSE), Change.RESUME))
    # The last of several overlapping pauses must not outlive every resumption.
    last = max(change.at for change in changes)
    return (*sorted(changes, key=lambda change: change.at), LiveChange(last + 0.1, Change.RESUME))


def make_change(control: Control, change: LiveChange, now: Callable[[], float]) -> None:
    """Change the collection; `now` is the wall clock."""
    match change.change:
        case Change.PAUSE:
            control.hold(PAUSED, by="plan")
        case Change.RESUME:
            control.release(PAUSED, by="plan")
        case Change.CONCURRENCY:
            control.set_concurrency(change.value or None)
        case Change.RETRY_FAILED:
            control.retry_failed()
        case Change.RETRY_ALL:
            control.retry_failed(omitted=True)
        case Change.CUT:
            control.cut(lambda each: each.key.task % 2 == change.value % 2, "by the plan")
        case Change.DROP:
            control.drop(lambda each: each.key.task % 2 == change.value % 2, "by the plan")
        case Change.POLICY:
            control.set_policy_version(str(change.value))
        case Change.DEADLINE:
            control.set_deadline(now() + DEADLINE_AFTER)


def longest_pause(changes: tuple[LiveChange, ...]) -> float:
    """No less than the time in which the changes hold a collection."""
    return sum(LONGEST_PAUSE + LATEST for each in changes if each.change is Change.PAUSE)
