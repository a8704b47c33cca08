"""`<stem>_aggregate_metrics.json`: the numbers of each agent's rollouts.

The environment knows what its numbers mean, so its server is asked, as long as what would have to
be sent is of a reasonable size. Where it is not, or the server cannot answer, the usual numbers are
computed here from the journal, in the memory of the open groups.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import msgspec

from rollgym.metrics.aggregate import AgentMetrics
from rollgym.records import AgentError, Attempt, Completed, RolloutError, Task
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
from rollgym.rollouts.files import Holds, completed_attempts
from rollgym.rollouts.inputs import agent_name
from rollgym.servers.client import ServerClient
from rollgym.store import TaskLookup, inputs_path, write_derived

LARGEST_REQUEST = 32 * 1024 * 1024
ASKING_TIMEOUT = 300.0
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
Clients = Callable[[str], ServerClient]
Row = dict[str, Any]


class _Told(msgspec.Struct, kw_only=True):
    """The numbers of an agent, which may be anything its server says."""

    agent_metrics: dict[str, msgspec.Raw] = {}
    key_metrics: dict[str, msgspec.Raw] = {}
    group_level_metrics: list[msgspec.Raw] = []


_TOLD = msgspec.json.Decoder(_Told)


class RunNumbers:
    """The numbers of a run, or of the part of it that `holds` names."""

    def __init__(self, directory: Path, holds: Holds) -> None:
        self._directory = directory
        self._holds = holds

    async def write(
        self, path: Path, clients: Clients | None, usual: Collection[str] = ()
    ) -> list[str]:
        """Write the file; why it holds only the usual numbers, where it should hold others.

        Without `clients` nobody is asked; `usual` are agents whose environments are known to have
        no numbers of their own. Raises StoreError.
        """
        told, notes = await self._ask(clients, usual) if clients else ({}, [])
        all_told = clients is not None and not usual and not notes
        await asyncio.to_thread(self._write, path, told, all_told=all_told)
        return notes

    async def _ask(
        self, clients: Clients, usual: Collection[str]
    ) -> tuple[dict[str, _Told], list[str]]:
        requests = await asyncio.to_thread(self._requests, usual)
        if requests is None:
            limit = LARGEST_REQUEST // (1024 * 1024)
            note = (
                f"the rows are more than {limit} MiB, too many to send: the aggregate metrics are "
                "the usual ones, without those of the environment"
            )
            return {}, [note]
        told, notes = {}, []
        for agent, rows in requests.items():
            body = b'{"verify_responses":[%b]}' % b",".join(rows)
            try:
                answer = await clients(agent).call(
                    "/aggregate_metrics", body, error=AgentError, within=ASKING_TIMEOUT
                )
                told[agent] = _TOLD.decode(answer.body)
            except (RolloutError, KeyError, msgspec.DecodeError) as error:
                notes.append(f"{agent} gave no aggregate metrics, they are the usual ones: {error}")
        return told, notes

    def _requests(self, besides: Collection[str]) -> dict[str, list[bytes]] | None:
        """The rows of each agent; None when they are too many."""
        rows: dict[str, list[bytes]] = {}
        size = 0
        for agent, _, row in self._rows(besides):
            encoded = msgspec.json.encode(_decoded(row))
            size += len(encoded)
            if size > LARGEST_REQUEST:
                return None
            rows.setdefault(agent, []).append(encoded)
        return rows

    def _write(self, path: Path, told: dict[str, _Told], *, all_told: bool) -> None:
        with TemporaryFile() as spool:
            usual = iter(()) if all_told else self._usual(spool, besides=told)
            write_derived(path, _document(chain(_without_spools(told), usual)))

    def _usual(
        self, spool: IO[bytes], besides: Collection[str]
    ) -> Iterator[tuple[str, _Told, Iterator[bytes]]]:
        """The usual numbers of the agents that did not answer, their groups from the spool."""
        metrics: dict[str, AgentMetrics] = {}
        seen: dict[int, int] = {}
        for agent, attempt, row in self._rows(besides):
            numbers = metrics.setdefault(agent, AgentMetrics())
            numbers.add(_decoded(row))
            seen[attempt.task] = seen.get(attempt.task, 0) + 1
            if seen[attempt.task] == attempt.repeats:
                del seen[attempt.task]
                entry = numbers.close(attempt.task)
                spool.write(msgspec.json.encode([agent, entry]) + b"\n")
        for agent, numbers in metrics.items():
            result = _TOLD.decode(msgspec.json.encode(numbers.result()))
            yield agent, result, _spooled(spool, agent)

    def _rows(self, besides: Collection[str] = ()) -> Iterator[tuple[str, Attempt, Row]]:
        """Every completed rollout without what was said in it."""
        with TaskLookup(inputs_path(self._directory)) as tasks:
            for attempt in completed_attempts(self._directory, self._holds):
                task = tasks.task(attempt.task)
                agent = agent_name(task.row)
                if agent not in besides:
                    yield agent, attempt, _numbers_row(task, attempt)


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


def _numbers_row(task: Task, attempt: Attempt) -> Row:
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
    return row


def _spooled(spool: IO[bytes], agent: str) -> Iterator[bytes]:
    spool.seek(0)
    for line in spool:
        named, entry = msgspec.json.decode(line, type=tuple[str, msgspec.Raw])
        if named == agent:
            yield bytes(entry)


def _document(agents: Iterable[tuple[str, _Told, Iterator[bytes]]]) -> Iterator[bytes]:
    """A list with one object for each agent, written piece by piece."""
    first = True
    for agent, told, spooled in agents:
        yield b"[" if first else b",\n"
        first = False
        head = {
            AGENT: {"name": agent},
            "agent_metrics": told.agent_metrics,
            "key_metrics": told.key_metrics,
        }
        yield msgspec.json.encode(head)[:-1] + b',"group_level_metrics":['
        separator = b""
        for entry in chain(map(bytes, told.group_level_metrics), spooled):
            yield separator + entry
            separator = b","
        yield b"]}"
    yield b"[]\n" if first else b"]\n"


def _without_spools(told: dict[str, _Told]) -> Iterator[tuple[str, _Told, Iterator[bytes]]]:
    for agent, metrics in told.items():
        yield agent, metrics, iter(())
