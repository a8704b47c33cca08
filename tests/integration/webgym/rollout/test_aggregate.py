"""Putting ranks together: whole, exact, bounded, and taking in what comes late."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rollgym.engine import ExitStatus
from rollgym.store import FileLock, RefusedError, RunBusyError, StorageError
from rollgym.store import disk as disk_module
from tests.integration.webgym.rollout.rank_files import a_trajectory, leave_files
from tests.integration.webgym.tasks.task_rows import some_tasks
from webgym.rollout.aggregation import Aggregation, aggregate
from webgym.rollout.iteration import IterationPaths, find_iteration, read_report
from webgym.rollout.sample import Sample, SampleOrigin, share_sample
from webgym.tasks.file import TaskFile
from webgym.trajectory.metrics import calculate_rollout_metrics
from webgym.trajectory.torch_file import TorchFile, read_torch_file

WEIGHTS = (2.0, 1.0, 1.0)


@pytest.fixture
def paths(tmp_path: Path) -> IterationPaths:
    """Of an iteration of 12 tasks for three ranks."""
    paths = IterationPaths(tmp_path / "save", "train", 5)
    share(paths, WEIGHTS)
    return paths


def share(paths: IterationPaths, weights: tuple[float, ...]) -> Sample:
    paths.save_path.mkdir(exist_ok=True)
    tasks = TaskFile(some_tasks(paths.save_path / "tasks.jsonl", 12))
    origin = SampleOrigin(
        split="train", iteration=5, seed=0, tasks_sha256=tasks.sha256, rank_weights=weights
    )
    return share_sample(paths.sample, origin, tasks)


def trajectories_of(paths: IterationPaths, rank: int) -> list[dict[str, Any]]:
    return [
        a_trajectory(task.index, reward=task.index % 2, steps=2 + task.index)
        for task in Sample(paths.sample).tasks(rank)
    ]


def finish(paths: IterationPaths, rank: int, **report: Any) -> None:
    leave_files(paths.of_rank(rank, 3), trajectories_of(paths, rank), **report)


def indexes(paths: IterationPaths) -> list[object]:
    return [each["trajectory_index"] for each in read_torch_file(str(paths.trajectories))]


def missing(result: Aggregation) -> list[int]:
    return [each.rank for each in result.missing]


def test_the_trajectories_of_all_ranks_become_one_file_in_their_order(
    paths: IterationPaths,
) -> None:
    for rank in range(3):
        finish(paths, rank)
    result = aggregate(paths)
    expected = [
        each["trajectory_index"] for rank in range(3) for each in trajectories_of(paths, rank)
    ]
    assert indexes(paths) == expected
    assert sorted(map(str, expected)) == sorted(map(str, range(12)))
    assert result.exit_status is ExitStatus.COMPLETE
    with TorchFile(paths.trajectories) as file:
        assert file.metadata["final"] is True
        assert file.metadata["world_size"] == 3


def test_metrics_are_those_of_all_trajectories_to_the_last_bit(paths: IterationPaths) -> None:
    for rank in range(3):
        finish(paths, rank)
    result = aggregate(paths)
    assert result.report == read_report(paths.metrics)
    assert result.report.metrics == calculate_rollout_metrics(read_torch_file(paths.trajectories))


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        ({}, ExitStatus.COMPLETE),
        ({"failed": 2}, ExitStatus.FAILED),
        ({"omitted": 1}, ExitStatus.OMITTED),
    ],
)
def test_the_exit_status_is_that_of_the_whole_iteration(
    paths: IterationPaths, counts: dict[str, int], status: ExitStatus
) -> None:
    finish(paths, 0)
    finish(paths, 2)
    done = trajectories_of(paths, 1)[: 3 - counts.get("omitted", 0)]
    leave_files(paths.of_rank(1, 3), done, **counts)
    result = aggregate(paths)
    assert result.missing == ()
    assert result.exit_status is status


def test_a_missing_rank_is_named_and_its_rollouts_are_unresolved(paths: IterationPaths) -> None:
    finish(paths, 0)
    finish(paths, 2)
    result = aggregate(paths)
    assert list(map(str, result.missing)) == ["rank 1 with 3 tasks (no files yet)"]
    assert result.report.missing_ranks == (1,)
    assert not result.report.final
    coverage = result.report.coverage
    assert (coverage.expected, coverage.completed, coverage.unresolved) == (12, 9, 3)
    assert result.exit_status is ExitStatus.INTERRUPTED
    assert len(indexes(paths)) == 9
    assert find_iteration(paths.save_path, "train") == 5


def test_doing_it_again_takes_in_what_came_late_and_leaves_the_files_of_ranks(
    paths: IterationPaths,
) -> None:
    finish(paths, 0)
    finish(paths, 2)
    aggregate(paths)
    finish(paths, 1)
    before = {path.name: path.read_bytes() for path in paths.folder.glob("*_rank_*")}
    result = aggregate(paths)
    assert result.exit_status is ExitStatus.COMPLETE
    assert len(indexes(paths)) == 12
    assert {path.name: path.read_bytes() for path in paths.folder.glob("*_rank_*")} == before
    assert find_iteration(paths.save_path, "train") == 6


@pytest.mark.parametrize("kinds", [["trajectories"], ["metrics"], ["trajectories", "metrics"]])
def test_what_was_put_together_is_whole_without_the_files_of_ranks_and_nobody_waits(
    paths: IterationPaths, kinds: list[str]
) -> None:
    for rank in range(3):
        finish(paths, rank)
    first = aggregate(paths)
    before = paths.trajectories.read_bytes()
    for kind in kinds:
        tidied: Path = getattr(paths.of_rank(1, 3), kind)
        tidied.unlink()
    waits: list[float] = []
    result = aggregate(paths, timeout=100, clock=lambda: sum(waits), sleep=waits.append)
    assert waits == []
    assert result.kept == (1,)
    assert (result.missing, result.exit_status) == ((), ExitStatus.COMPLETE)
    assert result.report == first.report
    assert paths.trajectories.read_bytes() == before


def test_what_was_taken_in_is_not_taken_out_when_other_ranks_are_missing(
    paths: IterationPaths,
) -> None:
    finish(paths, 0)
    finish(paths, 2)
    aggregate(paths)
    finish(paths, 1)
    leave_files(paths.of_rank(2, 3), trajectories_of(paths, 2)[:1], expected=3, final=False)
    result = aggregate(paths)
    assert sorted(map(str, indexes(paths))) == sorted(map(str, range(12)))
    assert (missing(result), result.kept) == ([2], (2,))
    assert result.exit_status is ExitStatus.INTERRUPTED
    assert (result.report.final, result.report.missing_ranks) == (False, ())
    assert result.report.metrics == calculate_rollout_metrics(read_torch_file(paths.trajectories))
    finish(paths, 2)
    assert aggregate(paths).report.final


def test_a_late_rank_is_taken_in_though_the_files_of_another_are_gone(
    paths: IterationPaths,
) -> None:
    finish(paths, 0)
    finish(paths, 2)
    aggregate(paths)
    paths.of_rank(2, 3).trajectories.unlink()
    finish(paths, 1)
    assert aggregate(paths).exit_status is ExitStatus.COMPLETE
    assert len(indexes(paths)) == 12


def test_an_earlier_file_that_is_damaged_is_made_anew(paths: IterationPaths) -> None:
    for rank in range(3):
        finish(paths, rank)
    aggregate(paths)
    paths.trajectories.write_bytes(paths.trajectories.read_bytes().replace(b"click", b"clock", 1))
    paths.of_rank(1, 3).trajectories.unlink()
    result = aggregate(paths)
    assert (missing(result), result.kept) == ([1], ())
    assert len(indexes(paths)) == 9


def test_a_rank_that_is_not_done_has_not_arrived(paths: IterationPaths) -> None:
    finish(paths, 0)
    finish(paths, 2)
    leave_files(paths.of_rank(1, 3), trajectories_of(paths, 1)[:2], expected=3, final=False)
    (rank,) = aggregate(paths).missing
    assert rank.progress == "2 of 3 rollouts done"


def test_a_rank_of_another_division_has_not_arrived(paths: IterationPaths) -> None:
    finish(paths, 0)
    finish(paths, 2)
    leave_files(paths.of_rank(1, 3), trajectories_of(paths, 1)[:2])
    (rank,) = aggregate(paths).missing
    assert "has 2 rollouts, not 3" in rank.progress


def test_metrics_of_trajectories_that_are_not_there_do_not_count(paths: IterationPaths) -> None:
    for rank in range(3):
        finish(paths, rank)
    own = paths.of_rank(1, 3)
    own.trajectories.unlink()
    (rank_1,) = aggregate(paths).missing
    assert rank_1.progress == f"{own.trajectories.name} is missing"


@pytest.mark.parametrize("kind", ["trajectories", "metrics"])
def test_a_file_that_cannot_be_read_is_named_and_the_rest_put_together(
    paths: IterationPaths, kind: str
) -> None:
    for rank in range(3):
        finish(paths, rank)
    broken: Path = getattr(paths.of_rank(1, 3), kind)
    broken.write_bytes(broken.read_bytes()[:100])
    result = aggregate(paths)
    assert missing(result) == [1]
    assert broken.name in result.missing[0].progress
    assert len(indexes(paths)) == 9


def test_damage_that_only_the_checksum_shows_leaves_that_rank_out(paths: IterationPaths) -> None:
    for rank in range(3):
        finish(paths, rank)
    damaged = paths.of_rank(1, 3).trajectories
    content = damaged.read_bytes()
    damaged.write_bytes(content.replace(b"click", b"clock", 1))
    result = aggregate(paths)
    assert missing(result) == [1]
    assert "checksum" in result.missing[0].progress
    assert len(indexes(paths)) == 9
    assert result.report.coverage.unresolved == 3


def test_ranks_without_tasks_are_not_waited_for(paths: IterationPaths) -> None:
    paths.sample.unlink()
    share(paths, (0.0, 1.0))
    leave_files(
        paths.of_rank(1, 2), [a_trajectory(task.index) for task in Sample(paths.sample).tasks(1)]
    )
    assert aggregate(paths).exit_status is ExitStatus.COMPLETE


def test_the_master_waits_for_ranks_that_are_late(paths: IterationPaths) -> None:
    finish(paths, 0)
    finish(paths, 1)
    late = threading.Timer(0.3, finish, (paths, 2))
    late.start()
    said: list[str] = []
    result = aggregate(paths, timeout=30, report=said.append, sleep=lambda _: time.sleep(0.05))
    late.join()
    assert result.exit_status is ExitStatus.COMPLETE
    assert said == ["waiting up to 0.5 more minutes for rank 2 with 3 tasks (no files yet)"]


def test_waiting_ends_and_says_meanwhile_what_it_is_for(paths: IterationPaths) -> None:
    now = [0.0]
    said: list[str] = []

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if now[0] == 30:
            finish(paths, 0)

    result = aggregate(paths, timeout=180, report=said.append, clock=lambda: now[0], sleep=sleep)
    assert now[0] == 180
    assert missing(result) == [1, 2]
    assert [line.split(" more")[0] for line in said] == [
        "waiting up to 3.0",
        "waiting up to 2.5",
        "waiting up to 1.5",
        "waiting up to 0.5",
    ]
    assert "rank 0" in said[0]
    assert "rank 0" not in said[1]


def test_one_rank_has_nothing_to_put_together(paths: IterationPaths) -> None:
    paths.sample.unlink()
    share(paths, (1.0,))
    with pytest.raises(RefusedError, match="one rank"):
        aggregate(paths)


def test_without_a_sample_nobody_knows_the_ranks(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"iteration0\.sample\.jsonl"):
        aggregate(IterationPaths(tmp_path, "train", 0))


def test_two_do_not_put_the_same_together_at_once(
    paths: IterationPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "LOCK_TIMEOUT", 0.05)
    held = FileLock(paths.folder / ".iteration5.aggregation.lock")
    assert held.try_acquire()
    try:
        with pytest.raises(RunBusyError, match="the aggregation of"):
            aggregate(paths)
    finally:
        held.release()
