"""Collections whose attempts run in real processes of this machine."""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollgym.cluster.launchers import LocalProcesses
from rollgym.cluster.messages import HEADER_SIZE, Hello
from rollgym.cluster.worker_processes import WorkerProcesses, WorkerProgram
from rollgym.engine import (
    Backoff,
    Control,
    Coverage,
    ExitStatus,
    Fixed,
    Policy,
    RetryPolicy,
    RetryRule,
    Stop,
    collect,
    run,
)
from rollgym.records import Attempt, Failed, FailureKind, Row, Task
from rollgym.servers.launch.records import StartError
from rollgym.store import DiskFullError, StorageError, open_run, read_records
from tests.integration.cluster.programs import PROGRAM, REFUSING
from tests.integration.servers.launch.probe import is_alive

AT_ONCE = RetryPolicy(default=RetryRule(5, Backoff(0, maximum=0)), by_kind={})


class Collected:
    """A collection of rows in two processes, and what its workers said."""

    def __init__(self, directory: Path, rows: Sequence[str], **settings: Any) -> None:
        self.directory = directory
        self.processes: dict[int, int] = {}
        self.stop = Stop()
        self.control = Control()
        self.started: asyncio.Queue[tuple[int, int, int]] = asyncio.Queue()
        self._rows = rows
        self._settings: dict[str, Any] = {"silence": 60.0, "program": PROGRAM, **settings}
        self._dies = settings.get("dies", lambda *_: False)

    def run(self) -> Coverage:
        return run(self._collect())

    async def _collect(self) -> Coverage:
        tasks = (Task(i, Row.of({"does": does})) for i, does in enumerate(self._rows))
        program = WorkerProgram(
            self._settings["program"],
            lambda number: str(number).encode(),
            {"store": self._settings.get("store", _kept)},
            self._note,
        )
        policy = Policy(concurrency=Fixed(8), retry=AT_ONCE)
        processes = WorkerProcesses(
            program,
            self._settings.get("launcher", LocalProcesses()),
            2,
            self.stop.give_up,
            silence=self._settings["silence"],
        )
        with open_run(self.directory, tasks) as store:
            async with processes:
                act = asyncio.ensure_future(self._settings.get("act", _nothing)(self.control))
                try:
                    return await collect(
                        store.inputs,
                        processes,
                        store,
                        policy,
                        stop=self.stop,
                        control=self.control,
                    )
                finally:
                    act.cancel()

    def _note(self, topic: str, body: bytes) -> None:
        assert topic == "started"
        process, task, attempt = map(int, body.split())
        self.processes[process] = self.processes.get(process, 0) + 1
        if self._dies(self._rows[task], attempt):
            os.kill(process, signal.SIGKILL)

    @property
    def records(self) -> list[Attempt]:
        journals = sorted(self.directory.glob("journal*.jsonl"))
        return [entry.attempt for entry, _ in read_records(journals)]

    def failures(self, does: str) -> list[FailureKind]:
        outcomes = (each.outcome for each in self.records if self._rows[each.task] == does)
        return [each.failure.kind for each in outcomes if isinstance(each, Failed)]


async def _kept(body: bytes) -> bytes:
    return body


async def _nothing(_: Control) -> None:
    """Leave the collection alone."""


def test_no_turn_in_another_process_has_a_version_that_cannot_have_sampled_it(
    tmp_path: Path,
) -> None:
    async def train(control: Control) -> None:
        """One version for the first 40 rollouts, then a new one every few milliseconds."""
        version = 0
        while True:
            control.set_policy_version(str(version))
            await asyncio.sleep(0.009)
            status = control.status()
            version += status is not None and status.completed >= 40

    collected = Collected(tmp_path / "run", ["turns"] * 120, act=train)
    assert collected.run().exit_status is ExitStatus.COMPLETE
    history = collected.control.policy_versions
    checked = set()
    for record in collected.records:
        times = msgspec.json.decode(record.outcome.result, type=list[float])
        for turn, (start, end) in zip(record.outcome.turns, pairwise(times), strict=True):
            before = [each.version for each in history if each.monotonic <= start][-1:]
            during = [each.version for each in history if start < each.monotonic <= end]
            assert set(before + during) <= set(turn.versions)
            checked.add(len(turn.versions))
    assert min(checked) == 1
    assert max(checked) > 1


def test_a_record_that_a_worker_process_made_is_as_one_of_the_driver(tmp_path: Path) -> None:
    """The turns are left out, because no version is known."""
    before = time.time()
    collected = Collected(tmp_path / "run", ["complete", "turns", "turns"])
    assert collected.run().exit_status is ExitStatus.COMPLETE
    records = sorted(collected.records, key=lambda each: each.task)
    assert [(each.task, each.attempt, each.final) for each in records] == [
        (task, 1, True) for task in range(3)
    ]
    assert not any(each.outcome.turns for each in records)
    assert all(before < each.started < time.time() for each in records)
    assert min(each.seconds for each in records[1:]) >= 3 * 0.004


def test_attempts_of_a_killed_process_run_again_and_nothing_is_lost_or_doubled(
    tmp_path: Path,
) -> None:
    rows = ["complete"] * 30 + ["wait once", "store"] + ["complete"] * 30

    collected = Collected(
        tmp_path, rows, dies=lambda does, attempt: (does, attempt) == ("wait once", 1)
    )
    coverage = collected.run()

    assert coverage.exit_status is ExitStatus.COMPLETE
    finals = sorted(each.task for each in collected.records if each.final)
    assert finals == list(range(len(rows)))
    assert collected.failures("wait once") == [FailureKind.WORKER]
    assert not any(map(is_alive, collected.processes))
    stored = next(each for each in collected.records if each.final and rows[each.task] == "store")
    assert msgspec.json.decode(stored.outcome.result) == {"does": "store"}


@pytest.mark.campaign
def test_a_rollout_that_kills_every_process_ends_and_the_others_complete(tmp_path: Path) -> None:
    rows = ["complete"] * 10 + ["kill"] + ["complete"] * 10

    collected = Collected(tmp_path, rows)
    coverage = collected.run()

    assert (coverage.completed, coverage.failed) == (20, 1)
    assert collected.failures("kill")[:2] == [FailureKind.WORKER] * 2
    assert collected.failures("kill")[-1] is FailureKind.CRASH


def test_a_process_that_blocks_is_replaced_while_others_go_on(tmp_path: Path) -> None:
    rows = ["block once"] + ["complete"] * 20

    collected = Collected(tmp_path, rows, silence=1.0)
    coverage = collected.run()

    assert coverage.exit_status is ExitStatus.COMPLETE
    assert collected.failures("block once") == [FailureKind.WORKER]
    assert not any(map(is_alive, collected.processes))


def test_a_program_that_refuses_to_start_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="worker . did not start: its port is in use"):
        Collected(tmp_path, ["complete"], program=REFUSING).run()


def test_attempts_are_spread_evenly_also_while_processes_start(tmp_path: Path) -> None:
    arrived, all_have = count(1), asyncio.Event()

    async def together(body: bytes) -> bytes:
        if next(arrived) == 8:
            all_have.set()
        await all_have.wait()
        return body

    collected = Collected(tmp_path, ["store"] * 8, store=together)
    assert collected.run().completed == 8
    assert sorted(collected.processes.values()) == [4, 4]


def test_processes_that_started_early_are_used_and_no_other_one_stays(tmp_path: Path) -> None:
    with LocalProcesses.early(3) as local:
        early = [process.pid for process in local._early]
        collected = Collected(tmp_path, ["complete"] * 20, launcher=local)
        assert collected.run().completed == 20
        assert set(collected.processes) < set(early)
        assert sum(map(is_alive, early)) == 1
    assert not any(map(is_alive, early))


def test_a_full_disk_of_the_driver_stops_the_collection(tmp_path: Path) -> None:
    async def full(_: bytes) -> bytes:
        raise DiskFullError("no space left on the device")

    with pytest.raises(StorageError, match="no space left"):
        Collected(tmp_path, ["store"], store=full).run()


def test_a_connection_without_the_token_is_closed(tmp_path: Path) -> None:
    """And it is not waited for."""

    async def connect() -> bytes:
        program = WorkerProgram(PROGRAM, lambda _: b"")
        async with WorkerProcesses(program, LocalProcesses(), 1, lambda _: None) as processes:
            reader, writer = await asyncio.open_unix_connection(str(processes.address))
            hello = msgspec.msgpack.encode(Hello("guessed", "1", 1, "elsewhere", 1))
            writer.write(len(hello).to_bytes(HEADER_SIZE, "big") + hello)
            answered = await asyncio.wait_for(reader.read(), 30)
            writer.close()
            assert processes.ready == 1
            return answered

    assert run(connect()) == b""
