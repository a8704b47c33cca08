"""`<stem>_aggregate_metrics.json`: the aggregate metrics of each agent's rollouts.

The environment knows what its numbers mean, so its server is asked, as long as the request has a
reasonable size. Otherwise, and where the server cannot answer, the file has the default metrics.
These are added up while the collection writes its files, or after a resume from the journal. The
entries of finished groups go to a temporary file, so that only open groups take memory.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from struct import Struct
from tempfile import TemporaryFile
from typing import Any, NamedTuple, Self

import msgspec

from rollgym.closing import Closable
from rollgym.metrics.aggregate import AgentMetrics, numbers_of
from rollgym.records import AgentError, Attempt, Completed, RolloutError, Task
from rollgym.records.decoding import JsonDecoder, decode_json
from rollgym.rollouts import rows
from rollgym.rollouts.output_row import RecordedResult
from rollgym.servers.client import ServerClient
from rollgym.store import TaskLookup, inputs_path, journal_paths, read_records, write_derived
from rollgym.store.disk import BUFFER

LARGEST_REQUEST = 8 * 1024 * 1024
REQUEST_TIMEOUT = 300.0
Clients = Callable[[str], ServerClient]
HoldsTask = Callable[[int], bool]
MetricsRow = dict[str, Any]
_FIELDS = JsonDecoder(dict[str, msgspec.Raw])
_OBJECT = JsonDecoder(dict[str, Any])
_VALUES = JsonDecoder(list[Any])
_NOT_NUMBERS = b'"n[{'
"""The first characters of values that are not numbers."""
_FIRST_BYTE = Struct("B").unpack_from
"""Reads a `Raw` in place, as a memoryview would, in a quarter of its time."""


class _ServerMetrics(msgspec.Struct, kw_only=True):
    """The response of a server, whose numbers may be anything."""

    agent_metrics: dict[str, msgspec.Raw] = {}
    key_metrics: dict[str, msgspec.Raw] = {}
    group_level_metrics: list[msgspec.Raw] = []


_SERVER_METRICS = JsonDecoder(_ServerMetrics)


class _AgentEntry(NamedTuple):
    """The entry of an agent in the file; `groups` are objects as JSON."""

    agent: str
    agent_metrics: Any
    key_metrics: Any
    groups: Iterator[bytes]


class CountedRollout(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the default metrics count of a completed rollout: its numbers, and its success."""

    agent: str
    numbers: dict[str, float]
    success: bool

    @classmethod
    def of(cls, task: Task, attempt: Attempt, result: RecordedResult | None = None) -> Self:
        """`result` is its recorded result where it is known."""
        numbers, success = _numbers(task, attempt, result or RecordedResult.of(attempt))
        return cls(rows.agent_name(task.row), numbers, success)


class _Counted:
    """The metrics of an agent, and the mark of its finished groups in the temporary file."""

    __slots__ = ("mark", "metrics")

    def __init__(self, mark: bytes) -> None:
        self.mark = mark
        self.metrics = AgentMetrics()


class DefaultMetrics(Closable):
    """The default metrics of each agent, added up one rollout at a time.

    It must be closed, because it holds a file.
    """

    def __init__(self) -> None:
        self._agents: dict[str, _Counted] = {}
        self._counted: dict[int, int] = {}
        self._groups = TemporaryFile(buffering=BUFFER)  # noqa: SIM115 - closed with the object

    def add(self, attempt: Attempt, rollout: CountedRollout) -> None:
        """Count a completed rollout."""
        agent_counted = self._agents.get(rollout.agent)
        if agent_counted is None:
            agent_counted = self._agents[rollout.agent] = _Counted(b"%d " % len(self._agents))
        metrics = agent_counted.metrics
        metrics.add_numbers(attempt.task, rollout.numbers, success=rollout.success)
        counted = self._counted.pop(attempt.task, 0) + 1
        if counted < attempt.repeats:
            self._counted[attempt.task] = counted
        else:
            entry = metrics.close(attempt.task)
            if entry is not None:
                self._groups.write(b"%b%b\n" % (agent_counted.mark, entry))

    def entries(self) -> Iterator[_AgentEntry]:
        for agent, counted in self._agents.items():
            metrics = counted.metrics.result()
            open_groups = map(msgspec.json.encode, metrics.group_level_metrics)
            groups = chain(open_groups, self._finished_groups(counted.mark))
            yield _AgentEntry(agent, metrics.agent_metrics, metrics.key_metrics, groups)

    def _finished_groups(self, mark: bytes) -> Iterator[bytes]:
        self._groups.seek(0)
        for line in self._groups:
            if line.startswith(mark):
                yield line[len(mark) : -1]

    def close(self) -> None:
        self._groups.close()


class AggregateFile:
    """The aggregate metrics of a run, or of its tasks that `holds` names."""

    def __init__(self, directory: Path, holds: HoldsTask) -> None:
        self._directory = directory
        self._holds = holds

    async def write(
        self,
        path: Path,
        clients: Clients | None,
        default_only: Collection[str] = (),
        counted: DefaultMetrics | None = None,
    ) -> list[str]:
        """Write the file; returns why it has default metrics where a server should have answered.

        Without `clients` no server is asked. `default_only` are agents whose environments have no
        metrics of their own. `counted` are the default metrics of all agents, where they have been
        added up already. Raises StoreError.
        """
        answers, notes = await self._ask(clients, default_only) if clients else ({}, [])
        complete = clients is not None and not default_only and not notes
        await asyncio.to_thread(self._write, path, answers, counted, complete=complete)
        return notes

    async def _ask(
        self, clients: Clients, default_only: Collection[str]
    ) -> tuple[dict[str, _ServerMetrics], list[str]]:
        requests = await asyncio.to_thread(self._requests, default_only)
        if requests is None:
            limit = LARGEST_REQUEST // (1024 * 1024)
            note = (
                f"the rows are more than {limit} MiB, which is too large for a request: the "
                "aggregate metrics are the default ones, without those of the environment"
            )
            return {}, [note]
        answers, notes = {}, []
        for agent, sent in requests.items():
            body = b'{"verify_responses":[%b]}' % b",".join(sent)
            try:
                answer = await clients(agent).call(
                    "/aggregate_metrics", body, error=AgentError, within=REQUEST_TIMEOUT
                )
                answers[agent] = _SERVER_METRICS.decode(answer.body)
            except (RolloutError, KeyError, msgspec.DecodeError) as error:
                notes.append(
                    f"{agent} did not answer with aggregate metrics, so the file has the default "
                    f"ones: {error}"
                )
        return answers, notes

    def _requests(self, besides: Collection[str]) -> dict[str, list[bytes]] | None:
        """The rows of each agent; None when they are too large."""
        requests: dict[str, list[bytes]] = {}
        size = 0
        for agent, task, attempt in self._completed(besides):
            encoded = msgspec.json.encode(metrics_row(task, attempt))
            size += len(encoded)
            if size > LARGEST_REQUEST:
                return None
            requests.setdefault(agent, []).append(encoded)
        return requests

    def _write(
        self,
        path: Path,
        answers: dict[str, _ServerMetrics],
        counted: DefaultMetrics | None,
        *,
        complete: bool,
    ) -> None:
        entries = (
            _AgentEntry(
                agent, own.agent_metrics, own.key_metrics, map(bytes, own.group_level_metrics)
            )
            for agent, own in answers.items()
        )
        if complete:
            write_derived(path, _document(entries))
            return
        with DefaultMetrics() as recounted:
            metrics = counted
            if metrics is None:
                metrics = recounted
                for _, task, attempt in self._completed(answers):
                    metrics.add(attempt, CountedRollout.of(task, attempt))
            others = (each for each in metrics.entries() if each.agent not in answers)
            write_derived(path, _document(chain(entries, others)))

    def _completed(self, besides: Collection[str]) -> Iterator[tuple[str, Task, Attempt]]:
        """Every completed rollout of other agents than these, with its agent and its task."""
        with TaskLookup(inputs_path(self._directory)) as tasks:
            for attempt in completed_attempts(self._directory, self._holds):
                task = tasks.task(attempt.task)
                agent = rows.agent_name(task.row)
                if agent not in besides:
                    yield agent, task, attempt


def completed_attempts(directory: Path, holds: HoldsTask) -> Iterator[Attempt]:
    """The records of completed rollouts that count. Raises StoreError."""
    for entry, current in read_records(journal_paths(directory)):
        attempt = entry.attempt
        if current and isinstance(attempt.outcome, Completed) and holds(attempt.task):
            yield attempt


def _numbers(task: Task, attempt: Attempt, result: RecordedResult) -> tuple[dict[str, float], bool]:
    """The numbers of a completed rollout's `metrics_row`, and whether it succeeded."""
    outcome = attempt.outcome
    if not isinstance(outcome, Completed):
        raise TypeError(f"{attempt.key} is not completed")
    found = {
        name: raw
        for name, raw in {**task.row.fields, **result.fields}.items()
        if _FIRST_BYTE(raw)[0] not in _NOT_NUMBERS
    }
    if "usage" in result.response:
        found[rows.RESPONSE] = result.response["usage"]
    try:
        values = _VALUES.decode(b"[%b]" % b",".join(found.values()))
        numbers: MetricsRow = dict(zip(found, values, strict=True))
    except msgspec.DecodeError:  # one that is out of range
        numbers = _readable_values(found)
    numbers[rows.REWARD], numbers[rows.SUCCESS] = outcome.reward, outcome.succeeded
    numbers[rows.RESPONSE] = {"usage": numbers.get(rows.RESPONSE)}
    return numbers_of(numbers), outcome.succeeded


def metrics_row(task: Task, attempt: Attempt) -> MetricsRow:
    """A completed rollout without its conversation and tokens, and without unreadable values."""
    outcome = attempt.outcome
    if not isinstance(outcome, Completed):
        raise TypeError(f"{attempt.key} is not completed")
    sent, number = rows.rollout_row(task, attempt.repeat)
    added = _FIELDS.decode(outcome.result)
    response = _FIELDS.decode(added.pop(rows.RESPONSE)) if rows.RESPONSE in added else {}
    row: MetricsRow = {
        name: raw for name, raw in sent.fields.items() if name not in (rows.PARAMS, rows.AGENT)
    }
    row |= {name: raw for name, raw in added.items() if name not in rows.KEPT}
    row |= {
        rows.REWARD: outcome.reward,
        rows.SUCCESS: outcome.succeeded,
        rows.TASK_INDEX: attempt.task,
        rows.ROLLOUT_INDEX: number,
    }
    if "usage" in response:
        row[rows.RESPONSE] = {"usage": response["usage"]}
    return _readable_values(row)


def _readable_values(fields: Mapping[str, object]) -> MetricsRow:
    """The values of fields, without those that cannot be read, such as a number out of range."""
    try:
        return _OBJECT.decode(msgspec.json.encode(fields))
    except (msgspec.DecodeError, RecursionError):
        readable = {name: raw for name, raw in fields.items() if _is_readable(raw)}
        return _OBJECT.decode(msgspec.json.encode(readable))


def _is_readable(raw: object) -> bool:
    try:
        decode_json(msgspec.json.encode(raw))
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _document(entries: Iterable[_AgentEntry]) -> Iterator[bytes]:
    """A list with one object for each agent, written piece by piece."""
    first = True
    for entry in entries:
        yield b"[" if first else b",\n"
        first = False
        head = {
            rows.AGENT: {"name": entry.agent},
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
