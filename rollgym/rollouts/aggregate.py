"""`<stem>_aggregate_metrics.json`: the numbers of each agent's rollouts.

The environment knows what its numbers mean, so its server is asked, as long as what would have to
be sent is of a reasonable size. Where it is not, or the server cannot answer, the usual numbers are
computed here from the journal, in the memory of the open groups.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import msgspec

from rollgym.metrics.aggregate import AgentMetrics, AggregateMetrics
from rollgym.records import AgentError, Attempt, Completed, RolloutError, Task
from rollgym.rollouts.fields import (
    AGENT,
    PARAMS,
    RESPONSE,
    REWARD,
    ROLLOUT_INDEX,
    SUCCESS,
    TASK_INDEX,
)
from rollgym.rollouts.files import Holds, completed_attempts
from rollgym.rollouts.inputs import agent_name
from rollgym.servers.client import ServerClient
from rollgym.store import TaskLookup, inputs_path, write_derived

LARGEST_REQUEST = 32 * 1024 * 1024
ASKING_TIMEOUT = 300.0
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_AGGREGATE = msgspec.json.Decoder(AggregateMetrics)
Clients = Callable[[str], ServerClient]
Row = dict[str, Any]


class RunNumbers:
    """The numbers of a run, or of the part of it that `holds` names."""

    def __init__(self, directory: Path, holds: Holds) -> None:
        """Raises InputsError, StorageError."""
        self._directory = directory
        self._holds = holds
        self._tasks = TaskLookup(inputs_path(directory))

    async def write(self, path: Path, clients: Clients | None) -> list[str]:
        """Write the file; why it holds only the usual numbers, where it does. Raises StoreError."""
        asked, notes = await self._ask(clients) if clients else ({}, [])
        with TemporaryFile() as spool:
            write_derived(path, _document(asked, self._usual(spool, asked)))
        self._tasks.close()
        return notes

    async def _ask(self, clients: Clients) -> tuple[dict[str, AggregateMetrics], list[str]]:
        requests = self._requests()
        if requests is None:
            limit = LARGEST_REQUEST // (1024 * 1024)
            note = (
                f"the rows are more than {limit} MiB, too many to send: the aggregate metrics are "
                "the usual ones, without those of the environment"
            )
            return {}, [note]
        answers, notes = {}, []
        for agent, rows in requests.items():
            body = b'{"verify_responses":[%b]}' % b",".join(rows)
            try:
                answer = await clients(agent).call(
                    "/aggregate_metrics", body, error=AgentError, within=ASKING_TIMEOUT
                )
                answers[agent] = _AGGREGATE.decode(answer.body)
            except (RolloutError, KeyError, msgspec.DecodeError) as error:
                notes.append(f"{agent} gave no aggregate metrics, they are the usual ones: {error}")
        return answers, notes

    def _requests(self) -> dict[str, list[bytes]] | None:
        """The rows of each agent; None when they are too many."""
        rows: dict[str, list[bytes]] = {}
        size = 0
        for agent, _, row in self._rows():
            encoded = msgspec.json.encode(row)
            size += len(encoded)
            if size > LARGEST_REQUEST:
                return None
            rows.setdefault(agent, []).append(encoded)
        return rows

    def _usual(
        self, spool: IO[bytes], asked: dict[str, AggregateMetrics]
    ) -> Iterator[tuple[str, AggregateMetrics, Iterator[bytes]]]:
        """The usual numbers of the agents that did not answer, their groups from the spool."""
        metrics: dict[str, AgentMetrics] = {}
        seen: dict[int, int] = {}
        for agent, attempt, raw in self._rows(besides=asked):
            numbers = metrics.setdefault(agent, AgentMetrics())
            numbers.add(msgspec.json.decode(msgspec.json.encode(raw)))
            seen[attempt.task] = seen.get(attempt.task, 0) + 1
            if seen[attempt.task] == attempt.repeats:
                del seen[attempt.task]
                entry = numbers.close(attempt.task)
                spool.write(msgspec.json.encode([agent, entry]) + b"\n")
        for agent, numbers in metrics.items():
            yield agent, numbers.result(), _spooled(spool, agent)

    def _rows(
        self, besides: dict[str, AggregateMetrics] | None = None
    ) -> Iterator[tuple[str, Attempt, Row]]:
        """Every completed rollout without what was said in it."""
        for attempt in completed_attempts(self._directory, self._holds):
            task = self._tasks.task(attempt.task)
            agent = agent_name(task.row)
            if besides is None or agent not in besides:
                yield agent, attempt, _numbers_row(task, attempt)


def _numbers_row(task: Task, attempt: Attempt) -> Row:
    outcome = attempt.outcome
    if not isinstance(outcome, Completed):
        raise TypeError(f"{attempt.key} is not completed")
    added = _FIELDS.decode(outcome.result)
    response = _FIELDS.decode(added.pop(RESPONSE)) if RESPONSE in added else {}
    row: Row = {name: raw for name, raw in task.row.fields.items() if name not in (PARAMS, AGENT)}
    row |= added
    row |= {
        REWARD: outcome.reward,
        SUCCESS: outcome.succeeded,
        TASK_INDEX: attempt.task,
        ROLLOUT_INDEX: attempt.repeat,
    }
    if "usage" in response:
        row[RESPONSE] = {"usage": response["usage"]}
    return row


def _spooled(spool: IO[bytes], agent: str) -> Iterator[bytes]:
    spool.seek(0)
    for line in spool:
        named, entry = msgspec.json.decode(line, type=tuple[str, msgspec.Raw])
        if named == agent:
            yield bytes(entry)


def _document(
    asked: dict[str, AggregateMetrics],
    usual: Iterator[tuple[str, AggregateMetrics, Iterator[bytes]]],
) -> Iterator[bytes]:
    """A list with one object for each agent, written piece by piece."""
    first = True
    for agent, metrics, spooled in _with_empty_spools(asked, usual):
        groups = [*map(msgspec.json.encode, metrics.group_level_metrics)]
        yield b"[" if first else b",\n"
        first = False
        head = {
            AGENT: {"name": agent},
            "agent_metrics": metrics.agent_metrics,
            "key_metrics": metrics.key_metrics,
        }
        yield msgspec.json.encode(head)[:-1] + b',"group_level_metrics":['
        separator = b""
        for entry in chain(groups, spooled):
            yield separator + entry
            separator = b","
        yield b"]}"
    yield b"[]\n" if first else b"]\n"


def _with_empty_spools(
    asked: dict[str, AggregateMetrics],
    usual: Iterator[tuple[str, AggregateMetrics, Iterator[bytes]]],
) -> Iterator[tuple[str, AggregateMetrics, Iterator[bytes]]]:
    for agent, metrics in asked.items():
        yield agent, metrics, iter(())
    yield from usual
