"""The aggregate metrics of one agent's rollouts, built rollout by rollout.

The same rollouts give the same result, bit for bit, in any order. Over all tasks, only sums and a
bounded number of values are kept. The numbers of a task are kept while it is open; a caller that
knows that a task has ended closes it and stores its entry, so memory is that of the open tasks.
Closing changes no number.
"""

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any

import msgspec

from rollgym.metrics.aggregate.fields import FieldStatistics, constant_members, members
from rollgym.metrics.aggregate.rollouts import (
    TASK_INDEX,
    Rollout,
    numbers_of,
    succeeded,
    task_of,
    tasks_of,
)
from rollgym.metrics.aggregate.standard_metrics import (
    default_agent_metrics,
    default_key_metrics,
    pass_metrics,
)
from rollgym.metrics.distribution import MOST_WAITING, ByName
from rollgym.metrics.pass_at_k import PassAtK
from rollgym.records.decoding import JsonDecoder

ROLLOUTS = "num_rollouts"
TRUNCATED = "fields_truncated"
_TASK, _ROLLOUTS = TASK_INDEX.encode(), ROLLOUTS.encode()
_ENTRY: JsonDecoder[dict[str, float]] = JsonDecoder(dict[str, int | float])

ComputeMetrics = Callable[[list[list[dict[str, Any]]]], dict[str, Any]]
GetKeyMetrics = Callable[[dict[str, Any]], dict[str, Any] | None]


class AggregateMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of one agent: all of them, the most important ones, and those of each task.

    It is the response of `/aggregate_metrics` and an entry of the metrics file. Hooks of a server
    may put any JSON into the first two.
    """

    agent_metrics: dict[str, Any] = {}
    key_metrics: dict[str, Any] = {}
    group_level_metrics: list[dict[str, float]] = []


class _TaskNumbers:
    """The numbers of one task's rollouts, until they are summarised.

    `judged` counts the rollouts with a known verdict, `successes` those of them that succeeded.
    """

    __slots__ = ("_rollouts", "judged", "successes")

    def __init__(self) -> None:
        self._rollouts: list[Mapping[str, float]] = []
        self.judged = self.successes = 0

    def add(self, numbers: Mapping[str, float], *, success: bool | None) -> None:
        """Count one rollout; `success` is None if it is unknown."""
        self._rollouts.append(numbers)
        if success is not None:
            self.judged += 1
            self.successes += success

    def entry(self, task: int, fields: ByName[FieldStatistics]) -> bytes:
        """The entry of the task, as JSON: its index, its number of rollouts, and the statistics of
        those fields that are kept over all tasks."""
        rollouts = self._rollouts
        parts = [b'"%b":%d,"%b":%d' % (_TASK, task, _ROLLOUTS, len(rollouts))]
        alone = rollouts[0] if len(rollouts) == 1 else None
        names = set().union(*rollouts) if alone is None else alone
        for name in sorted(fields.names & names if fields.truncated else names):
            values = [alone[name]] if alone else [each[name] for each in rollouts if name in each]
            first = values[0]
            if values.count(first) == len(values) and isfinite(first):
                parts.append(constant_members(name, first))
            else:
                statistics: dict[str, float] = {}
                FieldStatistics.of(values).add_to(statistics, name)
                parts.append(members(statistics))
        return b"{%b}" % b",".join(parts)


class AgentMetrics:
    """The statistics of every number of the rollouts added so far, overall and by task."""

    __slots__ = ("_closed", "_fields", "_open", "_waiting")

    def __init__(self) -> None:
        self._fields = ByName(FieldStatistics)
        # Rollouts whose fields are all known: many together are counted in fewer steps.
        self._waiting: list[Mapping[str, float]] = []
        self._open: dict[int, _TaskNumbers] = {}
        self._closed = PassAtK()

    def add(self, rollout: Rollout) -> None:
        """Count one rollout. Raises ValueError if its task's index is not an integer."""
        self.add_numbers(task_of(rollout), numbers_of(rollout), success=succeeded(rollout))

    def add_numbers(self, task: int, numbers: Mapping[str, float], *, success: bool | None) -> None:
        """Count one rollout of this task; `success` is None if it is unknown."""
        group = self._open.get(task)
        if group is None:
            group = self._open[task] = _TaskNumbers()
        if numbers.keys() <= self._fields.names:
            self._waiting.append(numbers)
        else:
            self._fields.add(numbers)
        if len(self._waiting) >= MOST_WAITING:
            self._count_waiting()
        group.add(numbers, success=success)

    def close(self, task: int) -> bytes | None:
        """Return the entry of a finished task as JSON, and leave it out of the result from now on.

        None for an unknown task.
        """
        group = self._open.pop(task, None)
        if group is None:
            return None
        self._closed.add_counts(group.judged, group.successes)
        return group.entry(task, self._fields)

    def statistics(self) -> dict[str, float]:
        """The statistics of every field, in the order of their names.

        `fields_truncated` says that there were more fields than are kept.
        """
        self._count_waiting()
        metrics: dict[str, float] = {}
        for name, field in self._fields.items():
            field.add_to(metrics, name)
        return {**metrics, TRUNCATED: True} if self._fields.truncated else metrics

    def _count_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for name, field in self._fields.items():
            field.add_all([numbers[name] for numbers in waiting if name in numbers])

    def groups(self) -> list[dict[str, float]]:
        """The entries of the tasks that were not closed, in the order of their indices."""
        entries = [self._open[task].entry(task, self._fields) for task in sorted(self._open)]
        return [_ENTRY.decode(entry) for entry in entries]

    def result(self) -> AggregateMetrics:
        """The complete metrics, as a server without hooks returns them."""
        successes = PassAtK()
        successes.merge(self._closed)
        for group in self._open.values():
            successes.add_counts(group.judged, group.successes)
        agent_metrics = {**self.statistics(), **pass_metrics(successes)}
        return AggregateMetrics(
            agent_metrics=agent_metrics,
            key_metrics=default_key_metrics(agent_metrics),
            group_level_metrics=self.groups(),
        )


def aggregate(
    rollouts: Iterable[Rollout],
    compute_metrics: ComputeMetrics = default_agent_metrics,
    get_key_metrics: GetKeyMetrics = default_key_metrics,
) -> AggregateMetrics:
    """The response of `/aggregate_metrics` for these rollouts, with a server's hooks.

    The result of `compute_metrics` is added to the statistics of the fields and replaces equal
    keys. `get_key_metrics` selects from both, or returns None for the default selection. Without
    rollouts there are no metrics and no hook is called. Raises ValueError if an index is not an
    integer, and what the hooks raise.
    """
    rollouts = list(rollouts)
    if not rollouts:
        return AggregateMetrics()
    metrics = AgentMetrics()
    for rollout in rollouts:
        metrics.add(rollout)
    agent_metrics = {**metrics.statistics(), **compute_metrics(tasks_of(rollouts))}
    chosen = get_key_metrics(dict(agent_metrics))
    return AggregateMetrics(
        agent_metrics=agent_metrics,
        key_metrics=default_key_metrics(agent_metrics) if chosen is None else chosen,
        group_level_metrics=metrics.groups(),
    )
