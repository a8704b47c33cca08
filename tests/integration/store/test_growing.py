"""Runs that are given more tasks and more repeats than they were made with."""

from pathlib import Path

import pytest

from rollgym.monitor import recount
from rollgym.records import Completed, Outcome, Row, Task
from rollgym.store import (
    Disk,
    IdentityError,
    RunBusyError,
    RunStore,
    Shard,
    Status,
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
