"""The scores of tasks, read out of their rollouts by a function of the author's.

Such a function returns a number, or None for a rollout to which the score does not apply. A number
that is not finite is as good as none.
"""

from collections.abc import Callable, Sequence
from math import isfinite

from rollgym.metrics.aggregate.rollouts import Rollout, number

Tasks = Sequence[Sequence[Rollout]]
"""The rollouts of each task, in the order of their repeats."""

Score = Callable[[Rollout], float | None]
Scores = Sequence[Sequence[float | None]]
"""For each task and each of its rollouts a finite score, or none."""


def reward(rollout: Rollout) -> float | None:
    """The score that every rollout has."""
    return number(rollout.get("reward"))


def finite(value: float | None) -> float | None:
    """The value as a float, or None where it is not finite or no number."""
    found = number(value)
    return found if found is not None and isfinite(found) else None


def scores_of(tasks: Tasks, score: Score) -> list[list[float | None]]:
    return [[finite(score(rollout)) for rollout in rollouts] for rollouts in tasks]


def require_positive(k: int) -> None:
    """Raises ValueError for a k of less than one."""
    if k < 1:
        raise ValueError(f"k is {k}: it counts rollouts and must be at least 1")
