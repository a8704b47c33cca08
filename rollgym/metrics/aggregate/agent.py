"""The aggregate of one agent's rollouts, built rollout by rollout.

The same rollouts give the same result, bit for bit, in whatever order they come and however they
are split and merged. Of the agent's own numbers only sums and a bounded number of values are kept.
A task's numbers are kept while it is open; whoever knows that a task has ended, and has somewhere
to put its entry, closes it, and memory is that of the open tasks. Closing changes no number.
"""

from collections.abc import Callable, Iterable
from typing import Any, Self

from rollgym.metrics.aggregate.best_of_k import BestOfK
from rollgym.metrics.aggregate.default import (
    default_agent_metrics,
    default_key_metrics,
    pass_metrics,
)
from rollgym.metrics.aggregate.fields import Fields
from rollgym.metrics.aggregate.group import TaskGroup
from rollgym.metrics.aggregate.result import AggregateMetrics
from rollgym.metrics.aggregate.rollouts import Rollout, numbers_of, succeeded, task_of, tasks_of

ComputeMetrics = Callable[[list[list[dict[str, Any]]]], dict[str, Any]]
GetKeyMetrics = Callable[[dict[str, Any]], dict[str, Any] | None]


class AgentMetrics:
    """The statistics of every number of the rollouts added so far, overall and by task."""

    __slots__ = ("_closed", "_fields", "_open")

    def __init__(self) -> None:
        self._fields = Fields()
        self._open: dict[int, TaskGroup] = {}
        self._closed = BestOfK()

    def add(self, rollout: Rollout) -> None:
        """Count one rollout. Raises ValueError where its task's index is no integer."""
        group = self._group(task_of(rollout))
        numbers = numbers_of(rollout)
        self._fields.add(numbers)
        group.add(numbers, success=succeeded(rollout))

    def merge(self, other: Self) -> None:
        """Add everything the other has seen; the other is left as it is."""
        self._fields.merge(other._fields)
        self._closed.merge(other._closed)
        for task, theirs in other._open.items():
            self._group(task).merge(theirs)

    def close(self, task: int) -> dict[str, float] | None:
        """Forget a task that gets no more rollouts. Its entry, which is no longer in the result;
        None where no rollout of it is known."""
        group = self._open.pop(task, None)
        if group is None:
            return None
        self._closed.add(group.successes)
        return group.metrics(task, self._fields)

    def statistics(self) -> dict[str, float]:
        """The statistics of every field, and nothing that a hook could replace."""
        return self._fields.metrics()

    def groups(self) -> list[dict[str, float]]:
        """The entries of the tasks that were not closed, in the order of their indices."""
        return [self._open[task].metrics(task, self._fields) for task in sorted(self._open)]

    def result(self) -> AggregateMetrics:
        """Everything, as a server without hooks of its own answers it."""
        successes = BestOfK()
        successes.merge(self._closed)
        for group in self._open.values():
            successes.add(group.successes)
        agent_metrics = {**self.statistics(), **pass_metrics(successes)}
        return AggregateMetrics(
            agent_metrics=agent_metrics,
            key_metrics=default_key_metrics(agent_metrics),
            group_level_metrics=self.groups(),
        )

    def _group(self, task: int) -> TaskGroup:
        group = self._open.get(task)
        if group is None:
            group = self._open[task] = TaskGroup()
        return group


def aggregate(
    rollouts: Iterable[Rollout],
    compute_metrics: ComputeMetrics = default_agent_metrics,
    get_key_metrics: GetKeyMetrics = default_key_metrics,
) -> AggregateMetrics:
    """What `/aggregate_metrics` answers for these rollouts, with a server's hooks.

    What `compute_metrics` returns is laid over the statistics of the fields, and `get_key_metrics`
    chooses from both, or leaves the usual choice with None. No rollouts have no metrics, and no
    hook is asked. Raises ValueError where an index is no integer, and what the hooks raise.
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
