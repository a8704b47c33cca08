"""What the engine works on, and the one function that differs between its users."""

from collections.abc import Awaitable, Iterator
from typing import Protocol

import msgspec

from rollgym.records import Outcome, RolloutKey, Task


class WorkItem(msgspec.Struct, frozen=True):
    """One rollout to be made. `seed` is its own, the same at every attempt and in every resume."""

    task: Task
    repeat: int
    seed: int

    @property
    def key(self) -> RolloutKey:
        return RolloutKey(self.task.index, self.repeat)


class Worker(Protocol):
    """Makes one attempt at a rollout.

    `attempt` counts from 1. `deadline` is a time of the running event loop, as `asyncio.timeout_at`
    takes it; the worker is cancelled then. It returns an outcome, or raises: a `RolloutError` fails
    the rollout with its kind, anything else as internal.
    """

    def __call__(self, item: WorkItem, attempt: int, deadline: float, /) -> Awaitable[Outcome]: ...


class Source(Protocol):
    """Tasks, lazily, and how many there will be."""

    @property
    def groups(self) -> int:
        """How many tasks iterating gives."""

    @property
    def expected(self) -> int:
        """How many rollouts they make, with repeats."""

    def __iter__(self) -> Iterator[Task]: ...
