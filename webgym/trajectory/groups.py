"""Groups: the rollouts of one task, for trainers that compare them with each other (GRPO).

A group is *complete* when every rollout of its task is completed. Only complete groups are counted
by their verdicts: all solved, none solved, or *mixed*, which are those that a trainer learns from.
"""

from collections import Counter
from functools import reduce

import msgspec


class TaskGroupCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The groups of an iteration, with `rollouts_per_task` rollouts each."""

    rollouts_per_task: int
    expected: int
    complete: int = 0
    all_solved: int = 0
    none_solved: int = 0
    mixed: int = 0

    def plus(self, other: "TaskGroupCounts") -> "TaskGroupCounts":
        """The groups of two ranks together."""
        added = {name: getattr(self, name) + getattr(other, name) for name in _ADDED}
        return msgspec.structs.replace(self, **added)


_ADDED = ("expected", "complete", "all_solved", "none_solved", "mixed")


def total_groups(parts: list[TaskGroupCounts]) -> TaskGroupCounts | None:
    """The groups of several ranks together; None without any."""
    return reduce(TaskGroupCounts.plus, parts) if parts else None


class GroupMeter:
    """Counts the completed and the solved rollouts of each task."""

    def __init__(self) -> None:
        self._completed: Counter[int] = Counter()
        self._solved: Counter[int] = Counter()

    def add(self, task: int, *, is_solved: bool) -> None:
        """Count a completed rollout."""
        self._completed[task] += 1
        self._solved[task] += is_solved

    def counts(self, size: int, expected: int) -> TaskGroupCounts:
        """The counts for `expected` groups of `size` rollouts."""
        complete = [task for task, count in self._completed.items() if count >= size]
        whole = sum(self._solved[task] >= size for task in complete)
        none = sum(not self._solved[task] for task in complete)
        return TaskGroupCounts(
            rollouts_per_task=size,
            expected=expected,
            complete=len(complete),
            all_solved=whole,
            none_solved=none,
            mixed=len(complete) - whole - none,
        )
