"""The average score of k rollouts of each task, and how far to trust it.

The i-th rollouts of all tasks are one run. Running k times gives k averages, and their standard
deviation says how much one run differs from another with the same tasks; divided by the root of k,
how far the average of the k is off. That says nothing about other tasks of the same sort: the
standard error across tasks does.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import zip_longest

import msgspec

from rollgym.metrics.aggregate.rounding import rounded, rounded_root
from rollgym.metrics.aggregate.scores import (
    Score,
    Scores,
    Tasks,
    require_positive,
    reward,
    scores_of,
)


class AverageOfK(msgspec.Struct, frozen=True, kw_only=True):
    """An average with its spreads, those of samples (ddof=1), None where there are less than two.

    Only runs in which any task has a score are runs.
    """

    mean: float
    std_dev_across_runs: float | None
    std_err_across_runs: float | None
    std_err_across_tasks: float | None


def average_of_k(tasks: Tasks, *, k: int, score: Score = reward) -> AverageOfK | None:
    """The mean over the tasks of the mean score of their first k rollouts, on the score's scale.

    Rollouts without a score are left out, and so are tasks without any; a task with fewer than k
    rollouts counts with those it has. None where there is no score. Raises ValueError for k < 1.
    """
    return Averages(scores_of(tasks, score)).first(k)


class Averages:
    """The average of every k, each number multiplied by the scale."""

    def __init__(self, tasks: Scores, scale: int = 1) -> None:
        self._scale = scale
        self._tasks = [list(_running_means(scores)) for scores in tasks if scores]
        self._runs = [_mean(scores) for scores in zip_longest(*tasks)]

    def first(self, k: int) -> AverageOfK | None:
        """The average of the first k rollouts. Raises ValueError for k < 1."""
        require_positive(k)
        tasks = _present(means[min(k, len(means)) - 1] for means in self._tasks)
        runs = _present(self._runs[:k])
        if not tasks:
            return None
        return AverageOfK(
            mean=rounded(self._scale * sum(tasks, Fraction()) / len(tasks)),
            std_dev_across_runs=self._root(_variance(runs), 1),
            std_err_across_runs=self._root(_variance(runs), len(runs)),
            std_err_across_tasks=self._root(_variance(tasks), len(tasks)),
        )

    def _root(self, variance: Fraction | None, count: int) -> float | None:
        return None if variance is None else rounded_root(self._scale**2 * variance / count)


def _running_means(scores: Iterable[float | None]) -> Iterator[Fraction | None]:
    """After each rollout the mean of the scores so far."""
    total, count = Fraction(), 0
    for score in scores:
        if score is not None:
            total, count = total + Fraction(score), count + 1
        yield total / count if count else None


def _mean(scores: Iterable[float | None]) -> Fraction | None:
    values = [Fraction(score) for score in scores if score is not None]
    return sum(values, Fraction()) / len(values) if values else None


def _variance(values: Sequence[Fraction]) -> Fraction | None:
    if len(values) < 2:
        return None
    mean = sum(values, Fraction()) / len(values)
    return sum(((value - mean) ** 2 for value in values), Fraction()) / (len(values) - 1)


def _present(values: Iterable[Fraction | None]) -> list[Fraction]:
    return [value for value in values if value is not None]
