"""Estimates over the repeats of each task: pass@k, average of k, majority@k.

*Average of k.* The i-th rollouts of all tasks form one run, so k repeats give k averages. Their
standard deviation says how much one run differs from another with the same tasks; divided by the
square root of k, it is the standard error of the average of the k. It says nothing about other
tasks of the same kind; the standard error across tasks does.

*Majority@k* is the score of the answer that most of the first k rollouts of a task gave. Rollouts
without an answer do not vote. If several answers have the most votes, the value is the mean over
them, which is the expected value of choosing one of them at random. The value of an answer is the
mean score of the rollouts that gave it; these differ only if a judge contradicts itself. A task
without any vote scores 0.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import zip_longest

import msgspec

from rollgym.metrics.aggregate.rollouts import Rollout, Score, Scores, Tasks, reward, scores_of
from rollgym.metrics.exact import rounded, rounded_root
from rollgym.metrics.pass_at_k import PassAtK, require_positive

Answer = Callable[[Rollout], Hashable | None]
Answers = Sequence[Sequence[Hashable | None]]
NO_VOTE = Fraction(0)


def pass_at_k(tasks: Tasks, *, k: int, score: Score = reward) -> float | None:
    """The expected best score of k rollouts of a task, on the scale of the score.

    For scores of 0 and 1 this is the unbiased estimate that at least one of k is a 1; for others it
    is the mean, over all ways to draw k, of the largest. Tasks with at least k scores count
    equally; None if there are none. Raises ValueError for k < 1.
    """
    estimate = passes_of(scores_of(tasks, score)).estimate(k)
    return None if estimate is None else rounded(estimate)


def passes_of(tasks: Scores) -> PassAtK:
    """The pass@k of every k."""
    passes = PassAtK()
    for scores in tasks:
        passes.add([score for score in scores if score is not None])
    return passes


class AverageOfK(msgspec.Struct, frozen=True, kw_only=True):
    """An average with its spreads, which are those of samples (ddof=1), None for fewer than two.

    Runs in which no task has a score do not count.
    """

    mean: float
    std_dev_across_runs: float | None
    std_err_across_runs: float | None
    std_err_across_tasks: float | None


def average_of_k(tasks: Tasks, *, k: int, score: Score = reward) -> AverageOfK | None:
    """The mean over the tasks of the mean score of their first k rollouts, on the score's scale.

    Rollouts without a score are left out, and so are tasks without any; a task with fewer than k
    rollouts counts with those it has. None if there is no score. Raises ValueError for k < 1.
    """
    return Averages(scores_of(tasks, score)).first(k)


class Averages:
    """The averages for every k; each number is multiplied by the scale."""

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
    """The mean of the scores so far, after each rollout."""
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


def majority_at_k(tasks: Tasks, *, answer: Answer, k: int, score: Score = reward) -> float | None:
    """The mean over the tasks of the score of the majority's answer, on the scale of the score.

    A task with fewer than k rollouts votes with those it has; tasks without rollouts do not count.
    None if there are no tasks. Raises ValueError for k < 1.
    """
    require_positive(k)
    curve = majority_curve(scores_of(tasks, score), answers_of(tasks, answer))
    return rounded(curve[min(k, len(curve)) - 1]) if curve else None


def answers_of(tasks: Tasks, answer: Answer) -> list[list[Hashable | None]]:
    return [[answer(rollout) for rollout in rollouts] for rollouts in tasks]


def majority_curve(tasks: Scores, answers: Answers, no_vote: Fraction = NO_VOTE) -> list[Fraction]:
    """majority@k for each k from 1 to the most rollouts of a task."""
    voting = [
        list(_majority_scores(zip(task, given, strict=True), no_vote))
        for task, given in zip(tasks, answers, strict=True)
        if task
    ]
    most = max(map(len, voting), default=0)
    return [
        sum((scores[min(k, len(scores)) - 1] for scores in voting), Fraction()) / len(voting)
        for k in range(1, most + 1)
    ]


def _majority_scores(
    votes: Iterable[tuple[float | None, Hashable | None]], no_vote: Fraction
) -> Iterator[Fraction]:
    """The score of the majority after each rollout.

    An answer with one vote more than the leaders becomes the only leader; one with as many votes
    joins them. So the sum of the leaders' scores is updated without visiting them again.
    """
    counts: Counter[Hashable] = Counter()
    totals: defaultdict[Hashable, Fraction] = defaultdict(Fraction)
    most = leaders = 0
    leading = Fraction()
    for score, answer in votes:
        if score is not None and answer is not None:
            counts[answer] += 1
            totals[answer] += Fraction(score)
            if counts[answer] > most:
                most, leaders, leading = counts[answer], 1, totals[answer]
            elif counts[answer] == most:
                leaders, leading = leaders + 1, leading + totals[answer]
        yield leading / (most * leaders) if most else no_vote
