"""pass@k of rollouts: the best of k, drawn from the repeats of each task."""

from collections.abc import Iterable

from rollgym.metrics.aggregate.best_of_k import BestOfK
from rollgym.metrics.aggregate.rounding import rounded
from rollgym.metrics.aggregate.scores import Score, Scores, Tasks, reward, scores_of


def pass_at_k(tasks: Tasks, *, k: int, score: Score = reward) -> float | None:
    """The expected best score of k rollouts of a task, on the scale of the score.

    Of scores that are 0 or 1 this is the unbiased estimate that at least one of k is a 1; of others
    it is the mean, over all ways to draw k, of the largest. Tasks with at least k scores count, and
    count equally; None where there are none. Raises ValueError for k < 1.
    """
    estimate = best_of_k(scores_of(tasks, score)).estimate(k)
    return None if estimate is None else rounded(estimate)


def best_of_k(tasks: Scores) -> BestOfK:
    """The estimator for every k."""
    bests = BestOfK()
    for scores in tasks:
        bests.add(list(_present(scores)))
    return bests


def _present(scores: Iterable[float | None]) -> Iterable[float]:
    return (score for score in scores if score is not None)
