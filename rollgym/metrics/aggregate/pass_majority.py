"""pass@k, majority@k and avg-of-k of several scores at once, under the keys everybody knows.

Everything is in percent. For each score and each k from 1 to the most rollouts of a task there are

    pass@{k}/{score}                                       the best of k, see `best_of_k`
    pass@1[avg-of-{k}]/{score}                             the average, see `average_of_k`
    pass@1[avg-of-{k}]/{score}/std_dev_across_runs         and its spreads, where there are any
    pass@1[avg-of-{k}]/{score}/std_err_across_runs
    pass@1[avg-of-{k}]/{score}/std_err_across_tasks
    majority@{k}/{score}                                   of answers, see `majority_at_k`

Answers bring a further score, `no_answer`: 1 for a rollout without an answer. The majority has no
answer where none of the k rollouts has. Scores that are not finite are left out and counted in
`num_non_finite/{score}`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import isfinite
from operator import methodcaller

from rollgym.metrics.aggregate.average_of_k import AverageOfK, Averages
from rollgym.metrics.aggregate.highest_k import SPREADS
from rollgym.metrics.aggregate.majority_at_k import (
    NO_VOTE,
    Answer,
    Answers,
    answers_of,
    majority_curve,
)
from rollgym.metrics.aggregate.pass_at_k import best_of_k
from rollgym.metrics.aggregate.rollouts import Rollout, number, succeeded
from rollgym.metrics.aggregate.rounding import rounded
from rollgym.metrics.aggregate.scores import Scores, Tasks, scores_of

ACCURACY = "accuracy"
NO_ANSWER = "no_answer"
PERCENT = 100

ScoresOf = Callable[[Rollout], Mapping[str, float]]
"""The scores of one rollout by name; a bool is 0 or 1."""


def accuracy(rollout: Rollout) -> dict[str, float]:
    """Whether the rollout succeeded, by its own word or else by a reward of at least 1."""
    success = succeeded(rollout)
    return {} if success is None else {ACCURACY: success}


def pass_majority_metrics(
    tasks: Tasks, score_of: ScoresOf = accuracy, answer_of: Answer | None = None
) -> dict[str, float]:
    """The metrics that the module describes; `answer_of` returns None where there is no answer."""
    scored = [[dict(score_of(rollout)) for rollout in rollouts] for rollouts in tasks]
    names = sorted({name for rollouts in scored for scores in rollouts for name in scores})
    answers = None if answer_of is None else answers_of(tasks, answer_of)
    metrics: dict[str, float] = {}
    for name in names:
        metrics.update(_of_score(name, scores_of(scored, methodcaller("get", name)), answers))
    if answers is not None:
        unanswered = [[float(answer is None) for answer in given] for given in answers]
        metrics.update(_of_score(NO_ANSWER, unanswered, answers, no_vote=Fraction(1)))
    metrics.update(_non_finite(scored))
    return metrics


def _of_score(
    name: str, tasks: Scores, answers: Answers | None, no_vote: Fraction = NO_VOTE
) -> Iterator[tuple[str, float]]:
    bests, averages = best_of_k(tasks), Averages(tasks, PERCENT)
    majorities = [] if answers is None else majority_curve(tasks, answers, no_vote)
    for k in range(1, max(map(len, tasks), default=0) + 1):
        best, average = bests.estimate(k), averages.first(k)
        if best is not None:
            yield f"pass@{k}/{name}", rounded(PERCENT * best)
        if average is not None:
            yield from _of_average(f"pass@1[avg-of-{k}]/{name}", average)
        if majorities:
            yield f"majority@{k}/{name}", rounded(PERCENT * majorities[k - 1])


def _of_average(key: str, average: AverageOfK) -> Iterator[tuple[str, float]]:
    yield key, average.mean
    for spread in SPREADS:
        value: float | None = getattr(average, spread)
        if value is not None:
            yield f"{key}/{spread}", value


def _non_finite(scored: Tasks) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for rollouts in scored:
        for scores in rollouts:
            counts.update(
                name for name, value in scores.items() if not isfinite(number(value) or 0.0)
            )
    return {f"num_non_finite/{name}": counts[name] for name in sorted(counts)}
