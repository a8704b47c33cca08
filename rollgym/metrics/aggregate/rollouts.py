"""Reading rollouts: their numbers, their task, whether they succeeded, and their scores.

A rollout is the JSON object that `/verify` returned. Its numbers are its fields and those of
`response.usage`, each under its name; if both have a name, the usage counts. A bool is 0 or 1.
Text, null, lists and objects are not numbers. Fields that start with `_ng_` identify a rollout and
are not counted.

A score function of an author returns a number, or None for a rollout to which the score does not
apply. A number that is not finite counts as None.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, isfinite
from typing import Any

from rollgym.records import Completed

TASK_INDEX = "_ng_task_index"
ROLLOUT_INDEX = "_ng_rollout_index"
_BOOKKEEPING = "_ng_"
_NUMBERS = (int, float)
"""A tuple, because a check against `int | float` takes three times as long."""

Rollout = Mapping[str, Any]
Tasks = Sequence[Sequence[Rollout]]
"""The rollouts of each task, in the order of their repeats."""

Score = Callable[[Rollout], float | None]
Scores = Sequence[Sequence[float | None]]
"""For each task and each of its rollouts a finite score, or None."""


def number(value: object) -> float | None:
    """Return a number as a float, also a non-finite one, and None for any other value.

    An integer that is too large for a float becomes infinite.
    """
    return _as_float(value) if isinstance(value, _NUMBERS) else None


def _as_float(value: float) -> float:
    try:
        return float(value) + 0.0  # -0.0 becomes 0.0, so that a minimum is unambiguous
    except OverflowError:
        return inf if value > 0 else -inf


def numbers_of(rollout: Rollout) -> dict[str, float]:
    """Every number of a rollout by its name, including non-finite ones."""
    numbers: dict[str, float] = {}
    _add_numbers(numbers, rollout)
    response = rollout.get("response")
    usage = response.get("usage") if isinstance(response, dict) else None
    if isinstance(usage, dict):
        _add_numbers(numbers, usage)
    return numbers


def _add_numbers(numbers: dict[str, float], fields: Mapping[str, object]) -> None:
    try:
        for name, value in fields.items():
            if isinstance(value, _NUMBERS) and not name.startswith(_BOOKKEEPING):
                numbers[name] = float(value) + 0.0  # as in `_as_float`
    except OverflowError:
        for name, value in fields.items():
            if isinstance(value, _NUMBERS) and not name.startswith(_BOOKKEEPING):
                numbers[name] = _as_float(value)


def task_of(rollout: Rollout) -> int:
    """The index of the rollout's task; 0 if it is missing, as the wire contract says.

    Raises ValueError for an index that is not an integer.
    """
    return _index(rollout, TASK_INDEX)


def succeeded(rollout: Rollout) -> bool | None:
    """Its `success`, or else whether its reward is at least 1; None if it has neither."""
    success = rollout.get("success")
    if isinstance(success, bool):
        return success
    reward = number(rollout.get("reward"))
    return Completed(reward).succeeded if reward is not None and isfinite(reward) else None


def tasks_of(rollouts: Iterable[Rollout]) -> list[list[dict[str, Any]]]:
    """Group rollouts as the `compute_metrics` hook takes them: by task, in the order of repeats.

    Raises ValueError for an index that is not an integer.
    """
    tasks: dict[int, list[Rollout]] = {}
    for rollout in rollouts:
        tasks.setdefault(task_of(rollout), []).append(rollout)
    for group in tasks.values():
        group.sort(key=lambda rollout: _index(rollout, ROLLOUT_INDEX))
    return [[dict(rollout) for rollout in tasks[task]] for task in sorted(tasks)]


def _index(rollout: Rollout, name: str) -> int:
    index = rollout.get(name, 0)
    if not isinstance(index, int) or isinstance(index, bool):
        raise ValueError(  # noqa: TRY004 - invalid data, not a programming error
            f"{name} is {index!r}: it must be an integer, as in the collected rows"
        )
    return index


def reward(rollout: Rollout) -> float | None:
    """The reward as a score."""
    return number(rollout.get("reward"))


def finite(value: float | None) -> float | None:
    """Return a finite number as a float, and None for any other value."""
    found = number(value)
    return found if found is not None and isfinite(found) else None


def scores_of(tasks: Tasks, score: Score) -> list[list[float | None]]:
    return [[finite(score(rollout)) for rollout in rollouts] for rollouts in tasks]
