"""One task: the numbers of its rollouts, kept compactly until they are asked for."""

from array import array
from collections.abc import Mapping
from math import isfinite
from typing import Self

from rollgym.metrics.aggregate.field import FieldStatistics, constant_metrics
from rollgym.metrics.aggregate.fields import Fields
from rollgym.metrics.aggregate.rollouts import TASK_INDEX

ROLLOUTS = "num_rollouts"


class TaskGroup:
    """The rollouts of one task so far."""

    __slots__ = ("_rollouts", "_successes", "_values")

    def __init__(self) -> None:
        self._rollouts = 0
        self._values: dict[str, list[float]] = {}
        self._successes = array("d")

    def add(self, numbers: Mapping[str, float], *, success: bool | None) -> None:
        """Count one rollout; `success` is None where nobody said."""
        self._rollouts += 1
        for name, value in numbers.items():
            values = self._values.get(name)
            if values is None:
                self._values[name] = [value]
            else:
                values.append(value)
        if success is not None:
            self._successes.append(success)

    def merge(self, other: Self) -> None:
        """Add other rollouts of the same task; the other group is left as it is."""
        self._rollouts += other._rollouts
        self._successes.extend(other._successes)
        for name, values in other._values.items():
            self._values.setdefault(name, []).extend(values)

    @property
    def successes(self) -> "array[float]":
        """A 1 or a 0 for each rollout of which it is known whether it succeeded."""
        return self._successes

    def metrics(self, task: int, fields: Fields) -> dict[str, float]:
        """The entry of the task: its index, how many rollouts it has, and the statistics of those
        fields that are kept of the whole."""
        entry: dict[str, float] = {TASK_INDEX: task, ROLLOUTS: self._rollouts}
        for name in sorted(self._values):
            if name not in fields:
                continue
            values = self._values[name]
            if isfinite(values[0]) and values.count(values[0]) == len(values):
                entry.update(constant_metrics(name, values[0]))
            else:
                entry.update(FieldStatistics.of(values).metrics(name))
        return entry
