"""Runs that are given more tasks and more repeats than they were made with."""

import asyncio
from pathlib import Path

import pytest

from rollgym.monitor import recount
from rollgym.records import Completed, Outcome, Row, Task
from rollgym.store import (
    Disk,
    IdentityError,
    InputsError,
    RunBusyError,
    RunStore,
    Shard,
    Status,
    TaskLookup,
    merge_runs,
    open_run,
    read_manifest,
)
from tests.builders import failed, make_run, record, tasks


def small_run(directory: Path) -> Path:
    """Three tasks, one rollout each: two are completed, one failed."""
    outcomes: list[Outcome] = [Completed(1.0), failed(), Completed(0.5)]
    with make_run(directory, 3) as run:
        for task, outcome in enumerate(outcomes):
            run.append(record(task, outcome=outcome))
    return directory


def finish(run: RunStore, repeats: int) -> None:
    """Complete every rollout that has no outcome."""
    for task in run.inputs:
        for repeat in range(task.repeats):
            if run.progress.status(task.index, repeat) is None:
                run.append(record(task.index, repeat, repeats=repeats))


def test_a_run_keeps_its_outcomes_when_it_grows(tmp_path: Path) -> None:
    small_run(tmp_path)
    first = read_manifest(tmp_path)
    with make_run(tmp_path, 5, 2) as run:
        assert run.grown_from is not None
        assert (run.grown_from.tasks, run.grown_from.rollouts) == (3, 3)
        assert (run.inputs.groups, run.inputs.expected) == (5, 10)
        assert [run.progress.status(task, 0) for task in range(4)] == [
            *(Status.COMPLETED, Status.FAILED, Status.COMPLETED, None),
        ]
        assert run.progress.groups_complete == 0
        finish(run, 2)
    with make_run(tmp_path, 5, 2) as again:
        assert again.grown_from is None
        assert again.progress.groups_complete == 4
    summary, manifest = recount(tmp_path).summary(), read_manifest(tmp_path)
    assert (summary.counts.completed, summary.counts.failed, summary.groups.complete) == (9, 1, 4)
    assert manifest is not None
    assert first is not None
    assert (manifest.run_id, manifest.identity.inputs.rollouts) == (first.run_id, 10)
    for count, repeats in ((3, 2), (5, 1), (6, 1)):
        with pytest.raises(IdentityError, match="more rows and more repeats, but not fewer"):
            make_run(tmp_path, count, repeats)


def test_other_rows_are_another_run(tmp_path: Path) -> None:
    small_run(tmp_path)
    other = [Task(index, Row.of({"question": f"other {index}"})) for index in range(5)]
    with pytest.raises(IdentityError, match="the first difference is in line 1 of"):
        open_run(tmp_path, other)


def test_a_run_does_not_grow_while_another_process_collects_it(tmp_path: Path) -> None:
    with (
        make_run(tmp_path, 3, shard=Shard(1, 2)),
        pytest.raises(RunBusyError, match="cannot be given more inputs while another process"),
    ):
        make_run(tmp_path, 5, shard=Shard(0, 2))
    with make_run(tmp_path, 5, shard=Shard(0, 2)) as one, make_run(tmp_path, 5, shard=Shard(1, 2)):
        assert [task.index for task in one.inputs] == [0, 2, 4]


def test_copies_of_a_run_are_merged_whichever_has_grown(tmp_path: Path) -> None:
    small_run(tmp_path / "small")
    with make_run(tmp_path / "large", 5, 2) as run:
        run.append(record(4, 1, repeats=2))
    for number, order in enumerate((["small", "large"], ["large", "small"])):
        target = tmp_path / str(number)
        merge_runs([tmp_path / name for name in order], target)
        with make_run(target, 5, 2) as merged:
            assert merged.progress.count(Status.COMPLETED) == 3
            assert merged.progress.groups_complete == 0
    journals = [(tmp_path / str(number) / "journal.jsonl").read_bytes() for number in range(2)]
    assert journals[0] == journals[1]


class _Killed(BaseException):
    """The process ends here."""


class DyingDisk(Disk):
    """The real disk of a process that is killed at its n-th operation."""

    def __init__(self, operations: int) -> None:
        super().__init__()
        self.left = operations

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Killed

    def sync(self, descriptor: int) -> None:
        self._count()
        super().sync(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        self._count()
        super().replace(source, target)
        self._count()


def test_a_process_killed_while_the_run_grows_leaves_a_run_that_opens(tmp_path: Path) -> None:
    opened, deaths = False, 0
    while not opened:
        directory = small_run(tmp_path / str(deaths))
        try:
            make_run(directory, 5, 2, disk=DyingDisk(deaths)).close()
            opened = True
        except _Killed:
            deaths += 1
        for repeats in (2, 3):  # the same command again, and one with even more
            with make_run(directory, 5, repeats) as run:
                assert len(list(run.inputs)) == 5
                assert run.progress.count(Status.COMPLETED) == 2
                assert run.inputs.expected == 5 * repeats
    assert deaths > 5


def test_a_grown_run_killed_between_its_files_can_grow_further(tmp_path: Path) -> None:
    inputs = (small_run(tmp_path) / "inputs.jsonl").read_bytes()
    make_run(tmp_path, 5).close()
    (tmp_path / "inputs.jsonl").write_bytes(inputs)
    with make_run(tmp_path, 6) as run:
        assert run.inputs.expected == len(list(tasks(6)))


class TearingDisk(Disk):
    """The disk of a process that is killed at one of the operations of a growing run.

    Where that is a write, a part of it is done.
    """

    def __init__(self, torn: float) -> None:
        super().__init__()
        self.left = 0
        self._torn = torn

    def write(self, descriptor: int, data: bytes) -> int:
        if self._is_the_last():
            super().write(descriptor, data[: int(len(data) * self._torn)])
            raise _Killed
        return super().write(descriptor, data)

    async def sync_in_background(self, descriptor: int) -> None:
        if self._is_the_last():
            raise _Killed
        await super().sync_in_background(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        if self._is_the_last():
            raise _Killed
        super().replace(source, target)

    def _is_the_last(self) -> bool:
        self.left -= 1
        return self.left == 0


def test_a_run_grows_while_it_is_collected_and_readers_follow(tmp_path: Path) -> None:
    async def growing() -> None:
        with make_run(tmp_path, 2) as run, TaskLookup(run.inputs.path) as lookup:
            with pytest.raises(KeyError):
                lookup.task(3)
            more = list(tasks(5))[2:]
            await run.grow(more)
            assert (run.inputs.groups, run.inputs.expected, run.inputs.holds(4)) == (5, 5, True)
            assert lookup.task(3) == more[1]
            assert read_manifest(tmp_path) == run.manifest
            with pytest.raises(InputsError, match="has an index of another"):
                await run.grow(more[:1])

    asyncio.run(growing())
    with make_run(tmp_path, 5) as again:
        assert again.grown_from is None
        assert [task.index for task in again.inputs] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("torn", [0.0, 0.7, 1.0])
def test_a_process_that_dies_while_its_run_grows_leaves_a_run_that_opens(
    tmp_path: Path, torn: float
) -> None:
    for operation in range(1, 8):
        directory = tmp_path / str(operation)
        with make_run(directory, 2):
            pass
        disk = TearingDisk(torn)
        with make_run(directory, 2, disk=disk) as run:
            disk.left = operation
            try:
                asyncio.run(run.grow(list(tasks(9))[2:]))
                died = False
            except _Killed:
                died = True
        manifest = read_manifest(directory)
        assert manifest is not None
        assert manifest.identity.inputs.tasks in ((2, 9) if died else (9,))
        with make_run(directory, manifest.identity.inputs.tasks) as again:
            assert list(again.inputs) == list(tasks(manifest.identity.inputs.tasks))
    assert not died


def test_a_shard_cannot_grow(tmp_path: Path) -> None:
    with (
        make_run(tmp_path, 2, shard=Shard(0, 2)) as run,
        pytest.raises(ValueError, match="open as shard 0/2, which cannot grow"),
    ):
        asyncio.run(run.grow([Task(2, Row.of({}))]))
