"""What the aggregate reads of a rollout: its numbers, its task, whether it succeeded.

A rollout is the JSON object that `/verify` answered. Its numbers are its own fields and those of
`response.usage`, each under its name; where both have a name the usage is meant. A bool is 0 or 1.
Text, null, lists and objects are no numbers, and fields that begin with `_ng_` say where a rollout
belongs and not what came of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import inf, isfinite
from typing import Any

from rollgym.records import Completed

TASK_INDEX = "_ng_task_index"
ROLLOUT_INDEX = "_ng_rollout_index"
_BOOKKEEPING = "_ng_"

Rollout = Mapping[str, Any]


def number(value: object) -> float | None:
    """The value as a float, also a non-finite one; None of what is no number.

    An integer beyond every float is infinite.
    """
    if not isinstance(value, int | float):
        return None
    try:
        return float(value) + 0.0  # -0.0 becomes 0.0, between which a minimum could not choose
    except OverflowError:
        return inf if value > 0 else -inf


def numbers_of(rollout: Rollout) -> dict[str, float]:
    """Every number of a rollout by its name, non-finite ones too."""
    response = rollout.get("response")
    usage = response.get("usage") if isinstance(response, Mapping) else None
    spent = _numbers(usage) if isinstance(usage, Mapping) else ()
    return {**dict(_numbers(rollout)), **dict(spent)}


def _numbers(fields: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    for name, value in fields.items():
        found = number(value)
        if found is not None and not name.startswith(_BOOKKEEPING):
            yield name, found


def task_of(rollout: Rollout) -> int:
    """The index of its task; 0 where the rollout names none, as everybody reads this contract.

    Raises ValueError where it names one that is no integer.
    """
    return _index(rollout, TASK_INDEX)


def succeeded(rollout: Rollout) -> bool | None:
    """Its own word, or else whether its reward is that of a success; None where it has neither."""
    success = rollout.get("success")
    if isinstance(success, bool):
        return success
    reward = number(rollout.get("reward"))
    return Completed(reward).succeeded if reward is not None and isfinite(reward) else None


def tasks_of(rollouts: Iterable[Rollout]) -> list[list[dict[str, Any]]]:
    """Rollouts as the `compute_metrics` hook takes them: by task, and the repeats of each in order.

    Raises ValueError for an index that is no integer.
    """
    tasks: dict[int, list[Rollout]] = {}
    for rollout in rollouts:
        tasks.setdefault(task_of(rollout), []).append(rollout)
    return [
        [dict(rollout) for rollout in sorted(tasks[task], key=_repeat_of)] for task in sorted(tasks)
    ]


def _repeat_of(rollout: Rollout) -> int:
    return _index(rollout, ROLLOUT_INDEX)


def _index(rollout: Rollout, name: str) -> int:
    index = rollout.get(name, 0)
    if not isinstance(index, int) or isinstance(index, bool):
        raise ValueError(  # noqa: TRY004 - data that somebody sent, and no mistake in a program
            f"{name} is {index!r}: it must be an integer, as in the collected rows"
        )
    return index
