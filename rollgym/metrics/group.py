"""One group: the repeats of one task."""

from typing import Self

from rollgym.metrics.exact import ExactSum
from rollgym.records import Completed, Outcome


class Group:
    """What is known so far of one task's repeats."""

    __slots__ = ("completed", "repeats", "resolved", "rewards", "successes")

    repeats: int
    resolved: int
    completed: int
    successes: int
    rewards: ExactSum

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats
        self.resolved = 0
        self.completed = 0
        self.successes = 0
        self.rewards = ExactSum()

    @property
    def full(self) -> bool:
        """Every repeat is resolved: nothing can change any more."""
        return self.resolved >= self.repeats

    def add(self, outcome: Outcome, *, resolved: bool) -> None:
        """Count the end of one repeat; `resolved` says that there will be no other end of it."""
        self.resolved += resolved
        if isinstance(outcome, Completed):
            self.completed += 1
            self.successes += outcome.succeeded
            self.rewards.add(float(outcome.reward))

    def merge(self, other: Self) -> None:
        """Add what another shard knows of other repeats of the same task."""
        self.resolved += other.resolved
        self.completed += other.completed
        self.successes += other.successes
        self.rewards.merge(other.rewards)
