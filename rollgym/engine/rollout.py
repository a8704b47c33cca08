"""A rollout that is open: admitted, and without an outcome yet."""

import asyncio
from enum import Enum

from rollgym.engine.work import WorkItem
from rollgym.records import Failed, Omitted, Outcome


class Halt(Enum):
    """Why the engine cancelled an attempt."""

    DEADLINE = "deadline"
    STRAGGLER = "straggler"
    STOP = "stop"


class OpenRollout:
    """One rollout from its admission to its outcome, with its present attempt.

    `attempt` numbers the latest attempt, also over resumes; `spent` counts those that use up the
    retry budget. `expires` is the rollout's own deadline, set when its first attempt begins.
    `replaces` is the outcome it has until it gets a new one.
    """

    __slots__ = (
        "attempt",
        "expires",
        "halt",
        "item",
        "replaces",
        "spent",
        "started",
        "started_wall",
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
        self.expires: float | None = None
        self.started = 0.0
        self.started_wall = 0.0
        self.halt: Halt | None = None
        self.task: asyncio.Task[Outcome] | None = None
        self.timer: asyncio.TimerHandle | None = None
