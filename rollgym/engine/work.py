"""The engine's inputs (source, worker), its unit of work, and its errors.

The worker is the one function that differs between users of the engine.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from enum import Enum
from typing import Protocol

import msgspec

from rollgym.records import Attempt, Failed, Omitted, Outcome, RolloutKey, Task
from rollgym.store import StoreError


class EngineError(Exception):
    """Base of the errors that stop a whole collection. A failed rollout never does."""


class SourceError(EngineError):
    """The source of tasks failed, or gave another number of tasks than it announced."""


class StuckWorkersError(EngineError):
    """Too many workers ignored their cancellation and are still running."""


def main_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error of a task group to raise: a known one, or the only one, or the whole group."""
    known = group.subgroup((StoreError, EngineError))
    chosen: BaseExceptionGroup[BaseException] = known or group
    return chosen.exceptions[0] if known or len(chosen.exceptions) == 1 else group


class WorkItem(msgspec.Struct, frozen=True):
    """One rollout to run. `seed` is the same for every attempt and after a resume."""

    task: Task
    repeat: int
    seed: int

    @property
    def key(self) -> RolloutKey:
        return RolloutKey(self.task.index, self.repeat)


class EncodedAttempt(msgspec.Struct, frozen=True, gc=False):
    """A completed attempt that another process has encoded as its record.

    `line` is that of the journal, and `attempt` what it says. The record is without the `turns` of
    the policy, JSON, of which none has a version. They may have begun up to `late` seconds later
    than they say, after the attempt had `waited`. `prepared` is what the other process has made of
    the record for observers.
    """

    attempt: Attempt
    line: bytes
    turns: bytes
    late: float
    waited: float
    prepared: bytes


class Worker(Protocol):
    """Runs one attempt at a rollout.

    `attempt` counts from 1. `deadline` is a time of the running event loop, as `asyncio.timeout_at`
    takes it; the worker is cancelled then. It returns an outcome, or one that is encoded already,
    or raises: a `RolloutError` fails the attempt with its kind, a `StorageError` stops the
    collection, and any other exception fails the attempt as internal.
    """

    def __call__(
        self, item: WorkItem, attempt: int, deadline: float, /
    ) -> Awaitable[Outcome | EncodedAttempt]: ...


class Source(Protocol):
    """Gives tasks lazily, and announces their number."""

    @property
    def groups(self) -> int:
        """The number of tasks."""

    @property
    def expected(self) -> int:
        """The number of rollouts, with repeats."""

    def __iter__(self) -> Iterator[Task]: ...


class LiveSource(ABC):
    """A source that grows while it is collected: its numbers rise, and it may have to wait.

    The engine asks again for a task after `listen`'s function was called. The source ends when its
    iteration ends.
    """

    @property
    @abstractmethod
    def groups(self) -> int:
        """The number of tasks so far."""

    @property
    @abstractmethod
    def expected(self) -> int:
        """The number of rollouts so far, with repeats."""

    @abstractmethod
    def __iter__(self) -> Iterator[Task | None]:
        """Gives the tasks, and None where there is no task now."""

    @abstractmethod
    def listen(self, more: Callable[[], None]) -> None:
        """Set the function to be called, on the event loop, when there may be a task again."""


class Halt(Enum):
    """Why the engine cancelled an attempt."""

    DEADLINE = "deadline"
    CUT = "cut"
    STALE = "stale"
    STRAGGLER = "straggler"
    STOP = "stop"


class OpenRollout:
    """One rollout from its admission to its outcome, with its present attempt.

    `attempt` is the number of the latest attempt, counted across resumes; `spent` counts the
    attempts that use up the retry budget. `deadline` is that of the present attempt; `expires` is
    the rollout's deadline, set when its first attempt starts. `replaces` is the earlier outcome
    that the new one will replace. `bugs` are the exceptions and places of its failed attempts.
    `crashes` counts attempts that froze or killed an earlier process, and `suspected` says that the
    rollout must run alone because of them. `slot` is that of the mark of its present attempt, and
    `late` the seconds from its `started` until its worker ran.
    `policy_version` is the one at its latest start. `halt_detail` says more about `halt`. `encoded`
    is what its worker has encoded of an attempt that has ended.
    """

    __slots__ = (
        "attempt",
        "bugs",
        "crashes",
        "deadline",
        "encoded",
        "expires",
        "halt",
        "halt_detail",
        "item",
        "late",
        "policy_version",
        "replaces",
        "slot",
        "spent",
        "started",
        "started_wall",
        "suspected",
        "task",
        "timer",
    )

    def __init__(
        self, item: WorkItem, attempt: int, spent: int, replaces: Failed | Omitted | None
    ) -> None:
        self.item = item
        self.attempt = attempt
        self.spent = spent
        self.replaces = replaces
        self.slot = 0
        self.crashes = 0
        self.suspected = False
        self.bugs: frozenset[tuple[str, str, int]] = frozenset()
        self.deadline = 0.0
        self.expires: float | None = None
        self.started = 0.0
        self.started_wall = 0.0
        self.late = 0.0
        self.halt: Halt | None = None
        self.halt_detail = ""
        self.policy_version: str | None = None
        self.encoded: EncodedAttempt | None = None
        self.task: asyncio.Task[Outcome] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def reopened(self, outcome: Failed | Omitted) -> "OpenRollout":
        """This rollout once more, with a new retry budget, to replace its outcome."""
        return OpenRollout(self.item, self.attempt, 0, outcome)

    def concluded(self, outcome: Outcome) -> Outcome:
        """The outcome of the present attempt; a bug that appears for the second time is terminal.

        The same exception at the same place is not bad luck, and a third attempt would not help.
        """
        if not isinstance(outcome, Failed) or outcome.failure.bug is None:
            return outcome
        failure, known = outcome.failure, self.bugs
        self.bugs |= {outcome.failure.bug}
        if failure.bug not in known or not failure.retryable:
            return outcome
        detail = f"{failure.detail} (not retried: an earlier attempt failed at the same line)"
        terminal = msgspec.structs.replace(failure, detail=detail, retryable=False)
        return msgspec.structs.replace(outcome, failure=terminal)
