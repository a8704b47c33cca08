"""The usual numbers of each agent's rollouts, added up one by one.

They are added while the collection writes its files, which has every rollout in hand anyway; after
a resume, from the journal. The entries of whole groups go to a file, so that memory is that of the
open ones.
"""

from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import Any, NamedTuple, Self

import msgspec

from rollgym.metrics.aggregate import AgentMetrics, AggregateMetrics
from rollgym.records import Attempt, Completed, Task
from rollgym.rollouts.bundle import shown
from rollgym.rollouts.fields import (
    AGENT,
    PARAMS,
    RESPONSE,
    REWARD,
    ROLLOUT_INDEX,
    SUCCESS,
    TASK_INDEX,
)
from rollgym.rollouts.inputs import agent_name

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
Row = dict[str, Any]


class UsualOfAgent(NamedTuple):
    """One agent's numbers; `groups` are the entries of its whole groups, as JSON."""

    agent: str
    metrics: AggregateMetrics
    groups: Iterator[bytes]


class UsualNumbers:
    """To be closed, because it holds a file."""

    def __init__(self) -> None:
        self._metrics: dict[str, AgentMetrics] = {}
        self._seen: dict[int, int] = {}
        self._spool = TemporaryFile()  # noqa: SIM115 - closed with the object

    def add(self, task: Task, attempt: Attempt) -> None:
        """Count a completed rollout."""
        agent = agent_name(task.row)
        numbers = self._metrics.get(agent)
        if numbers is None:
            numbers = self._metrics[agent] = AgentMetrics()
        numbers.add(numbers_row(task, attempt))
        seen = self._seen.pop(attempt.task, 0) + 1
        if seen < attempt.repeats:
            self._seen[attempt.task] = seen
        else:
            entry = numbers.close(attempt.task)
            self._spool.write(msgspec.json.encode([agent, entry]) + b"\n")

    def agents(self) -> Iterator[UsualOfAgent]:
        for agent, numbers in self._metrics.items():
            yield UsualOfAgent(agent, numbers.result(), self._groups_of(agent))

    def _groups_of(self, agent: str) -> Iterator[bytes]:
        self._spool.seek(0)
        for line in self._spool:
            named, entry = msgspec.json.decode(line, type=tuple[str, msgspec.Raw])
            if named == agent:
                yield bytes(entry)

    def close(self) -> None:
        self._spool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def numbers_row(task: Task, attempt: Attempt) -> Row:
    """A completed rollout without what was said in it, and without what nobody here can read."""
    outcome = attempt.outcome
    if not isinstance(outcome, Completed):
        raise TypeError(f"{attempt.key} is not completed")
    sent, number = shown(task, attempt.repeat)
    added = _FIELDS.decode(outcome.result)
    response = _FIELDS.decode(added.pop(RESPONSE)) if RESPONSE in added else {}
    row: Row = {name: raw for name, raw in sent.fields.items() if name not in (PARAMS, AGENT)}
    row |= added
    row |= {
        REWARD: outcome.reward,
        SUCCESS: outcome.succeeded,
        TASK_INDEX: attempt.task,
        ROLLOUT_INDEX: number,
    }
    if "usage" in response:
        row[RESPONSE] = {"usage": response["usage"]}
    return _decoded(row)


def _decoded(row: Row) -> Row:
    """The row's values, less those that no reader of ours can read: numbers out of range."""
    try:
        values: Row = msgspec.json.decode(msgspec.json.encode(row))
    except (msgspec.DecodeError, RecursionError):
        readable = {name: raw for name, raw in row.items() if _is_readable(raw)}
        values = msgspec.json.decode(msgspec.json.encode(readable))
    return values


def _is_readable(raw: object) -> bool:
    try:
        msgspec.json.decode(msgspec.json.encode(raw))
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
