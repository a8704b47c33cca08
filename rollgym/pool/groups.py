"""A group: the rollouts of one drawn row, from their outcomes to their delivery.

A group keeps the positions of its records in the journal and a few numbers of each, not the records
themselves. So the memory of a pool is that of its groups that are not done.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from rollgym.records import Attempt, Completed, Failed, Outcome
from rollgym.records.version import versions_of
from rollgym.store import Status, status_of


class Member(msgspec.Struct, frozen=True):
    """The outcome of one rollout of a group. `offset` is the position of its record.

    `versions` are those of the policy that its turns name; None where one of them is unknown.
    """

    repeat: int
    status: Status
    offset: int
    started: float
    seconds: float
    tokens: int = 0
    reward: float | None = None
    failure: str = ""
    versions: frozenset[str] | None = None

    @classmethod
    def of(cls, attempt: Attempt, offset: int) -> "Member":
        outcome = attempt.outcome
        return cls(
            attempt.repeat,
            status_of(outcome),
            offset,
            attempt.started,
            attempt.seconds,
            outcome.usage.output_tokens,
            outcome.reward if isinstance(outcome, Completed) else None,
            _why(outcome),
            versions_of(outcome.turns),
        )


def _why(outcome: Outcome) -> str:
    match outcome:
        case Completed():
            return ""
        case Failed():
            return str(outcome.failure.kind)
        case _:
            return str(outcome.reason)


class PoolGroup:
    """The rollouts of one task of the run.

    `spent` are the seconds of all its attempts, `deliveries` how often it was delivered.
    """

    __slots__ = ("deliveries", "members", "number", "size", "spent")

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.members: dict[int, Member] = {}
        self.spent = 0.0
        self.deliveries = 0

    @property
    def id(self) -> str:
        return f"g{self.number}"

    @property
    def finished(self) -> bool:
        """Whether every member has an outcome."""
        return len(self.members) == self.size

    @property
    def completed(self) -> list[Member]:
        """The members with a reward, in the order of their numbers."""
        ordered = sorted(self.members.values(), key=lambda member: member.repeat)
        return [member for member in ordered if member.status is Status.COMPLETED]

    @property
    def useful(self) -> float:
        """The seconds of the attempts that a trainer gets."""
        return sum(member.seconds for member in self.completed)

    @property
    def short(self) -> str | None:
        """Why members are missing; None where the group is complete."""
        missing = [each for each in self.members.values() if each.status is not Status.COMPLETED]
        if not missing:
            return None
        causes = [f"{each.status}: {each.failure}" for each in missing]
        counted = ", ".join(f"{causes.count(cause)} {cause}" for cause in dict.fromkeys(causes))
        return f"{len(missing)} of {self.size} rollouts have no reward ({counted})"

    @property
    def has_equal_rewards(self) -> bool:
        """Whether all rewards are the same, so that they say nothing about each other."""
        rewards = {member.reward for member in self.completed}
        return len(self.completed) > 1 and len(rewards) == 1


class DeliveredGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group as a trainer gets it.

    `id` is the same at every delivery, and `delivery` counts them. `task` is the row of the
    dataset. A group that is not `complete` has a `reason`. `versions` are those of the policy while
    it was made, oldest first. `rollouts` are the rows of its completed rollouts as in the output
    file, as JSON.
    """

    id: str
    number: int
    task: int
    delivery: int
    complete: bool
    reason: str | None
    versions: list[str]
    rollouts: list[msgspec.Raw]

    def rows(self) -> list[dict[str, Any]]:
        """The rollouts, decoded."""
        return [msgspec.json.decode(raw) for raw in self.rollouts]


class Tally:
    """Numbers of many rollouts, to compare groups that were delivered with those that were not."""

    def __init__(self) -> None:
        self.groups = 0
        self._rollouts = self._completed = self._tokens = 0
        self._reward = self._seconds = 0.0

    def add(self, members: Iterable[Member]) -> None:
        """Add the members of a group."""
        for member in members:
            self._rollouts += 1
            if member.reward is not None:
                self._completed += 1
                self._reward += member.reward
                self._tokens += member.tokens
                self._seconds += member.seconds

    def numbers(self) -> dict[str, Any]:
        """Means are those of completed rollouts, and None where there are none."""
        failed = self._rollouts - self._completed

        def mean(total: float, count: int) -> float | None:
            return round(total / count, 6) if count else None

        return {
            "groups": self.groups,
            "rollouts": self._rollouts,
            "failure_rate": mean(failed, self._rollouts),
            "mean_reward": mean(self._reward, self._completed),
            "mean_output_tokens": mean(self._tokens, self._completed),
            "mean_seconds": mean(self._seconds, self._completed),
        }
