"""`<stem>_aggregate_metrics.json`: the numbers of each agent's rollouts.

The environment knows what its numbers mean, so its server is asked, as long as what would have to
be sent is of a reasonable size. Where it is not, or the server cannot answer, the usual numbers are
computed here from the journal, in the memory of the open groups.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rollgym.records import AgentError, Attempt, RolloutError, Task
from rollgym.rollouts.fields import AGENT
from rollgym.rollouts.files import Holds, completed_attempts
from rollgym.rollouts.inputs import agent_name
from rollgym.rollouts.numbers import UsualNumbers, numbers_row
from rollgym.servers.client import ServerClient
from rollgym.store import TaskLookup, inputs_path, write_derived

LARGEST_REQUEST = 8 * 1024 * 1024
ASKING_TIMEOUT = 300.0
Clients = Callable[[str], ServerClient]


class _Told(msgspec.Struct, kw_only=True):
    """The numbers of an agent, which may be anything its server says."""

    agent_metrics: dict[str, msgspec.Raw] = {}
    key_metrics: dict[str, msgspec.Raw] = {}
    group_level_metrics: list[msgspec.Raw] = []


_TOLD = msgspec.json.Decoder(_Told)


class _Entry(NamedTuple):
    """What the file says of an agent; `groups` are objects as JSON."""

    agent: str
    agent_metrics: Any
    key_metrics: Any
    groups: Iterator[bytes]


class RunNumbers:
    """The numbers of a run, or of the part of it that `holds` names."""

    def __init__(self, directory: Path, holds: Holds) -> None:
        self._directory = directory
        self._holds = holds

    async def write(
        self,
        path: Path,
        clients: Clients | None,
        usual: Collection[str] = (),
        counted: UsualNumbers | None = None,
    ) -> list[str]:
        """Write the file; why it holds only the usual numbers, where it should hold others.

        Without `clients` nobody is asked; `usual` are agents whose environments are known to have
        no numbers of their own. `counted` are the usual numbers of all agents, where somebody has
        them already. Raises StoreError.
        """
        told, notes = await self._ask(clients, usual) if clients else ({}, [])
        all_told = clients is not None and not usual and not notes
        await asyncio.to_thread(self._write, path, told, counted, all_told=all_told)
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
        for agent, task, attempt in self._completed(besides):
            encoded = msgspec.json.encode(numbers_row(task, attempt))
            size += len(encoded)
            if size > LARGEST_REQUEST:
                return None
            rows.setdefault(agent, []).append(encoded)
        return rows

    def _write(
        self,
        path: Path,
        told: dict[str, _Told],
        counted: UsualNumbers | None,
        *,
        all_told: bool,
    ) -> None:
        if all_told:
            write_derived(path, _document(_entries(told)))
        elif counted is not None:
            write_derived(path, _document(chain(_entries(told), _usual_entries(counted, told))))
        else:
            with self._usual(told) as numbers:
                write_derived(path, _document(chain(_entries(told), _usual_entries(numbers, told))))

    def _usual(self, besides: Collection[str]) -> UsualNumbers:
        """The usual numbers of the agents that did not answer."""
        numbers = UsualNumbers()
        for _, task, attempt in self._completed(besides):
            numbers.add(task, attempt)
        return numbers

    def _completed(self, besides: Collection[str]) -> Iterator[tuple[str, Task, Attempt]]:
        """Every completed rollout of other agents than these, with its agent and its task."""
        with TaskLookup(inputs_path(self._directory)) as tasks:
            for attempt in completed_attempts(self._directory, self._holds):
                task = tasks.task(attempt.task)
                agent = agent_name(task.row)
                if agent not in besides:
                    yield agent, task, attempt


def _entries(told: dict[str, _Told]) -> Iterator[_Entry]:
    for agent, numbers in told.items():
        groups = map(bytes, numbers.group_level_metrics)
        yield _Entry(agent, numbers.agent_metrics, numbers.key_metrics, groups)


def _usual_entries(numbers: UsualNumbers, besides: Collection[str]) -> Iterator[_Entry]:
    for agent, metrics, groups in numbers.agents():
        if agent not in besides:
            open_groups = map(msgspec.json.encode, metrics.group_level_metrics)
            both = chain(open_groups, groups)
            yield _Entry(agent, metrics.agent_metrics, metrics.key_metrics, both)


def _document(entries: Iterable[_Entry]) -> Iterator[bytes]:
    """A list with one object for each agent, written piece by piece."""
    first = True
    for entry in entries:
        yield b"[" if first else b",\n"
        first = False
        head = {
            AGENT: {"name": entry.agent},
            "agent_metrics": entry.agent_metrics,
            "key_metrics": entry.key_metrics,
        }
        yield msgspec.json.encode(head)[:-1] + b',"group_level_metrics":['
        separator = b""
        for group in entry.groups:
            yield separator + group
            separator = b","
        yield b"]}"
    yield b"[]\n" if first else b"]\n"
