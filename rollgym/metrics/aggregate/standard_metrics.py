"""The estimates under their standard keys, and the metrics of servers without hooks.

Everything is in percent. For each score and each k from 1 to the most rollouts of a task,
`pass_majority_metrics` computes (see `estimates`)

    pass@{k}/{score}                                       the best of k
    pass@1[avg-of-{k}]/{score}                             the average of k
    pass@1[avg-of-{k}]/{score}/std_dev_across_runs         and its spreads, if there are any
    pass@1[avg-of-{k}]/{score}/std_err_across_runs
    pass@1[avg-of-{k}]/{score}/std_err_across_tasks
    majority@{k}/{score}                                   if there are answers

Answers add a further score, `no_answer`: 1 for a rollout without an answer. The majority has no
answer if none of the k rollouts has one. Scores that are not finite are left out and counted in
`num_non_finite/{score}`.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from fractions import Fraction
from math import isfinite
from operator import methodcaller
from typing import Any

from rollgym.metrics.aggregate.estimates import (
    NO_VOTE,
    Answer,
    Answers,
    AverageOfK,
    Averages,
    answers_of,
    majority_curve,
    passes_of,
)
from rollgym.metrics.aggregate.rollouts import Rollout, Scores, Tasks, number, scores_of, succeeded
from rollgym.metrics.exact import rounded
from rollgym.metrics.pass_at_k import PassAtK

ACCURACY = "accuracy"
NO_ANSWER = "no_answer"
PERCENT = 100
SPREADS = ("std_dev_across_runs", "std_err_across_runs", "std_err_across_tasks")
_HEADLINE = ("mean/reward", "mean/input_tokens", "mean/output_tokens", "mean/total_tokens")
_ESTIMATES = ("pass@1[avg-of-{k}]", "pass@{k}", "majority@{k}")

ScoresOf = Callable[[Rollout], Mapping[str, float]]
"""The scores of one rollout by name; a bool is 0 or 1."""


def accuracy(rollout: Rollout) -> dict[str, float]:
    """Whether the rollout succeeded, by its `success` or else by a reward of at least 1."""
    success = succeeded(rollout)
    return {} if success is None else {ACCURACY: success}


def pass_majority_metrics(
    tasks: Tasks, score_of: ScoresOf = accuracy, answer_of: Answer | None = None
) -> dict[str, float]:
    """The metrics that the module describes; `answer_of` returns None if there is no answer."""
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
    passes, averages = passes_of(tasks), Averages(tasks, PERCENT)
    majorities = [] if answers is None else majority_curve(tasks, answers, no_vote)
    for k in range(1, max(map(len, tasks), default=0) + 1):
        best, average = passes.estimate(k), averages.first(k)
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


def highest_k(
    agent_metrics: Mapping[str, Any],
    pattern: str,
    scores: Collection[str] | None = None,
    *,
    exclude: Collection[str] = (),
) -> dict[str, Any]:
    """The metrics `<pattern>/<score>` with the largest k, such as `pass@8/accuracy`.

    `{k}` in the pattern, such as `pass@{k}` or `pass@1[avg-of-{k}]`, is the number. `scores` limits
    the scores, and `exclude` leaves some out. Standard deviations and errors are always left out.
    Raises ValueError for a pattern without exactly one `{k}`.
    """
    before, placeholder, after = pattern.partition("{k}")
    if not placeholder or "{k}" in after:
        raise ValueError(f"the pattern {pattern!r} needs exactly one {{k}}, as in 'pass@{{k}}'")
    key_shape = re.compile(rf"{re.escape(before)}([0-9]+){re.escape(after)}/(.+)", re.DOTALL)
    by_k: dict[int, dict[str, Any]] = {}
    for key, value in agent_metrics.items():
        match = key_shape.fullmatch(key)
        if match is None or match[2] in exclude or match[2].rpartition("/")[2] in SPREADS:
            continue
        if scores is None or match[2] in scores:
            by_k.setdefault(int(match[1]), {})[key] = value
    return by_k[max(by_k)] if by_k else {}


def default_agent_metrics(tasks: Tasks) -> dict[str, float]:
    """pass@k of success, in percent, if any task has more than one rollout.

    A rollout's `success` counts, or else a reward of at least 1. k is each power of two up to the
    most rollouts of a task, and that number.
    """
    successes = PassAtK()
    for rollouts in tasks:
        known = (succeeded(rollout) for rollout in rollouts)
        successes.add([float(success) for success in known if success is not None])
    return pass_metrics(successes)


def pass_metrics(successes: PassAtK) -> dict[str, float]:
    """pass@k in percent under its keys, if any task has more than one rollout."""
    estimates = successes.estimates()
    if len(estimates) < 2:
        return {}
    return {f"pass@{k}/{ACCURACY}": rounded(PERCENT * each) for k, each in estimates.items()}


def default_key_metrics(agent_metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Mean reward and tokens, and pass@k, avg-of-k and majority@k at the largest k."""
    key_metrics = {key: agent_metrics[key] for key in _HEADLINE if key in agent_metrics}
    for pattern in _ESTIMATES:
        key_metrics.update(highest_k(agent_metrics, pattern, exclude=(NO_ANSWER,)))
    return key_metrics
