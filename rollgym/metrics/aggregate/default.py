"""What a server computes whose author wrote no hooks."""

from collections.abc import Mapping
from typing import Any

from rollgym.metrics.aggregate.best_of_k import BestOfK, usual_ks
from rollgym.metrics.aggregate.highest_k import highest_k
from rollgym.metrics.aggregate.pass_majority import ACCURACY, NO_ANSWER, PERCENT
from rollgym.metrics.aggregate.rollouts import succeeded
from rollgym.metrics.aggregate.rounding import rounded
from rollgym.metrics.aggregate.scores import Tasks

_HEADLINE = ("mean/reward", "mean/input_tokens", "mean/output_tokens", "mean/total_tokens")
_ESTIMATES = ("pass@1[avg-of-{k}]", "pass@{k}", "majority@{k}")


def default_agent_metrics(tasks: Tasks) -> dict[str, float]:
    """pass@k of success, in percent, where any task has more than one rollout.

    A rollout's own `success` counts, or else a reward of at least 1. k is each power of two up to
    the most rollouts of a task, and that number.
    """
    successes = BestOfK()
    for rollouts in tasks:
        known = (succeeded(rollout) for rollout in rollouts)
        successes.add([float(success) for success in known if success is not None])
    return pass_metrics(successes)


def pass_metrics(successes: BestOfK) -> dict[str, float]:
    """The keys and percentages of pass@k, where there are repeats."""
    ks = usual_ks(successes.largest)
    estimates = {k: successes.estimate(k) for k in ks} if len(ks) > 1 else {}
    return {
        f"pass@{k}/{ACCURACY}": rounded(PERCENT * estimate)
        for k, estimate in estimates.items()
        if estimate is not None
    }


def default_key_metrics(agent_metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Mean reward and tokens, and of pass@k, avg-of-k and majority@k those at the largest k."""
    key_metrics = {key: agent_metrics[key] for key in _HEADLINE if key in agent_metrics}
    for pattern in _ESTIMATES:
        key_metrics.update(highest_k(agent_metrics, pattern, exclude=(NO_ANSWER,)))
    return key_metrics
