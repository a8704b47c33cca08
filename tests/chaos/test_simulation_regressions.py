"""Defects that the simulation found, each as the smallest run that shows it."""

import asyncio
import gc
import itertools
import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rollgym.engine import (
    Coverage,
    Fixed,
    Policy,
    RetryPolicy,
    RetryRule,
    Stop,
    Worker,
    WorkItem,
    collect,
)
from rollgym.records import (
    Attempt,
    Completed,
    Failed,
    Failure,
    FailureKind,
    Outcome,
    RolloutKey,
    Row,
    Task,
    ToolError,
)
from rollgym.store import ControlChange, Disk, RunStore, Shard, open_run, read_journal
from tests.simulation.disk import Death, SimulatedCrash, SimulatedDisk
from tests.simulation.loop import SimulatedLoop
from tests.simulation.storage import Storage


def tasks(count: int) -> Iterator[Task]:
    for index in range(count):
        yield Task(index, Row(b"{}"))


def collect_in(
    loop: SimulatedLoop, directory: Path, count: int, worker: Worker, policy: Policy
) -> Coverage:
    async def main() -> Coverage:
        with open_run(directory, tasks(count), disk=SimulatedDisk(Storage(directory))) as store:
            return await collect(store.inputs, worker, store, policy, stop=Stop())

    return loop.run(main())


def write_completed(store: RunStore, task: int) -> None:
    """What a process does just before it is killed: the record is written and not yet synced."""
    store.append(
        Attempt(
            task=task,
            repeat=0,
            repeats=1,
            attempt=1,
            final=True,
            seed=0,
            started=0.0,
            seconds=0.0,
            outcome=Completed(1.0),
        )
    )


def unsynced(directory: Path, storage: Storage, log: str) -> int:
    path = directory / log
    with path.open("rb") as file:
        return path.stat().st_size - storage.synced(file.fileno())


async def never(_item: WorkItem, _attempt: int, _deadline: float) -> Outcome:
    raise AssertionError("everything is done already")


def test_the_records_of_a_killed_process_are_synced_before_they_are_counted(tmp_path: Path) -> None:
    """A process killed before its sync leaves records that only the page cache holds.

    A resumed run counts them, so it must sync them first, and with them what was changed live.
    """
    shard, logs = Shard(0, 2), ("journal-0-of-2.jsonl", "control-0-of-2.jsonl")
    storage = Storage(tmp_path)
    with open_run(tmp_path, tasks(1), shard=shard, disk=SimulatedDisk(storage)) as killed:
        write_completed(killed, 0)
        killed.control_log.append(ControlChange(time=0.0, by="a test", command="pause"))
    assert all(unsynced(tmp_path, storage, log) > 0 for log in logs)

    async def resume() -> Coverage:
        disk: Disk = SimulatedDisk(storage)
        with open_run(tmp_path, tasks(1), disk=disk) as store:
            return await collect(store.inputs, never, store, stop=Stop())

    assert SimulatedLoop().run(resume()).completed == 1
    assert not any(unsynced(tmp_path, storage, log) for log in logs)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.campaign)])
def test_a_run_opens_after_any_two_crashes_while_it_was_being_made(
    tmp_path: Path, seed: int
) -> None:
    """The process dies at one operation of opening, then the machine at another.

    Files that the second process saw, such as a manifest whose name was not synced, may be missing
    for the third. It must not reject the remaining files.
    """
    for first, second in itertools.product(range(1, 10), range(1, 6)):
        directory = tmp_path / f"{first}-{second}"
        storage = Storage(directory)
        for operation in (first, second):
            disk = SimulatedDisk(storage, death=Death(operation=operation))
            with suppress(SimulatedCrash), open_run(directory, tasks(1), disk=disk):
                pass
        storage.lose_power(Random(seed))
        with open_run(directory, tasks(1), disk=SimulatedDisk(storage)) as store:
            assert store.inputs.expected == 1


def test_stragglers_are_cancelled_in_the_order_they_began(tmp_path: Path) -> None:
    """Same seed, same order: not that of a set of objects in memory."""
    count = 40
    began: list[RolloutKey] = []

    async def hang(item: WorkItem, _attempt: int, _deadline: float) -> Outcome:
        if item.key.task == 0:
            await asyncio.sleep(1.0)
            return Completed(1.0)
        began.append(item.key)
        await asyncio.sleep(100.0)
        return Completed(1.0)

    policy = Policy(
        concurrency=Fixed(count), completion_threshold=0.01, completion_grace_period=1.0
    )
    collect_in(SimulatedLoop(), tmp_path, count, hang, policy)
    recorded = [entry.attempt.key for entry in read_journal(tmp_path / "journal.jsonl")]
    assert recorded == [RolloutKey(0, 0), *began]


def test_an_abandoned_worker_is_held_until_it_ends(tmp_path: Path) -> None:
    """The loop holds tasks weakly: a task without another reference may vanish while it waits."""
    loop = SimulatedLoop()

    async def deaf(item: WorkItem, _attempt: int, _deadline: float) -> Outcome:
        if item.key.task == 1:
            gc.collect()
            return Completed(1.0)
        try:
            await asyncio.sleep(100.0)
        except asyncio.CancelledError:
            await loop.create_future()
        return Completed(1.0)

    policy = Policy(
        concurrency=Fixed(1),
        retry=RetryPolicy(default=RetryRule(1), by_kind={}),
        attempt_timeout=1.0,
        cancel_grace=1.0,
    )
    coverage = collect_in(loop, tmp_path, 2, deaf, policy)
    assert (coverage.completed, coverage.failed, coverage.abandoned) == (1, 1, 1)
    assert loop.complaints == []


class HalfMadeError(ToolError):
    """A plug-in's error that forgets its base class."""

    def __init__(self) -> None:
        pass


class Unspeakable:
    """Even its name cannot be said."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


def failure(**fields: Any) -> Failed:
    return Failed(Failure(**{"kind": FailureKind.TOOL, "detail": "", "retryable": True, **fields}))


MALFORMED: dict[str, Any] = {
    "a reward beyond every float": Completed(10**400),
    "a reward that cannot be shown": Completed(Unspeakable()),  # type: ignore[arg-type]
    "a failure that is a text": Failed("it broke"),  # type: ignore[arg-type]
    "an unknown kind": failure(kind="unheard_of"),
    "a wait that is a text": failure(retry_after="soon"),
    "a wait that is no number": failure(retry_after=math.nan),
    "a wait into the past": failure(retry_after=-5.0),
    "an error without its base": HalfMadeError(),
}


def test_a_malformed_outcome_fails_its_rollout_and_no_other(tmp_path: Path) -> None:
    malformed = list(MALFORMED.values())

    async def work(item: WorkItem, _attempt: int, _deadline: float) -> Outcome:
        if item.key.task == len(malformed):
            return Completed(1.0)
        outcome: Any = malformed[item.key.task]
        if isinstance(outcome, Exception):
            raise outcome
        made: Outcome = outcome
        return made

    count = len(malformed) + 1
    coverage = collect_in(SimulatedLoop(), tmp_path, count, work, Policy(concurrency=Fixed(1)))
    assert (coverage.completed, coverage.failed) == (1, len(malformed))
