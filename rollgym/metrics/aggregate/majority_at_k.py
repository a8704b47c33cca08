"""majority@k: the score of the answer that most of the first k rollouts of a task gave.

Rollouts without an answer do not vote. Where several answers have the most votes, the value is the
mean over them: what choosing one of them at random is worth on average, without the chance. An
answer is worth the mean score of the rollouts that gave it, which only a judge that contradicts
itself makes differ. A task without any vote is worth nothing: 0.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from fractions import Fraction

from rollgym.metrics.aggregate.rollouts import Rollout
from rollgym.metrics.aggregate.rounding import rounded
from rollgym.metrics.aggregate.scores import (
    Score,
    Scores,
    Tasks,
    require_positive,
    reward,
    scores_of,
)

Answer = Callable[[Rollout], Hashable | None]
Answers = Sequence[Sequence[Hashable | None]]
NO_VOTE = Fraction(0)


def majority_at_k(tasks: Tasks, *, answer: Answer, k: int, score: Score = reward) -> float | None:
    """The mean over the tasks of the score of the majority's answer, on the scale of the score.

    A task with fewer than k rollouts votes with those it has; tasks without rollouts do not count,
    and None is the value of no tasks. Raises ValueError for k < 1.
    """
    require_positive(k)
    curve = majority_curve(scores_of(tasks, score), answers_of(tasks, answer))
    return rounded(curve[min(k, len(curve)) - 1]) if curve else None


def answers_of(tasks: Tasks, answer: Answer) -> list[list[Hashable | None]]:
    return [[answer(rollout) for rollout in rollouts] for rollouts in tasks]


def majority_curve(tasks: Scores, answers: Answers, no_vote: Fraction = NO_VOTE) -> list[Fraction]:
    """majority@k for each k from 1 to the most rollouts of a task."""
    voting = [
        list(_worth(zip(task, given, strict=True), no_vote))
        for task, given in zip(tasks, answers, strict=True)
        if task
    ]
    most = max(map(len, voting), default=0)
    return [
        sum((worth[min(k, len(worth)) - 1] for worth in voting), Fraction()) / len(voting)
        for k in range(1, most + 1)
    ]


def _worth(
    votes: Iterable[tuple[float | None, Hashable | None]], no_vote: Fraction
) -> Iterator[Fraction]:
    """What the majority is worth after each rollout.

    An answer that gets one vote more than the leaders had leads alone; one that draws level joins
    them. So the sum of the leaders' scores is known without looking at them again.
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
