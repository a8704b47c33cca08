"""The sample of an iteration: drawn once, shared by all ranks, and never silently another."""

import multiprocessing
from itertools import chain
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from rollgym.store import IdentityError, InputsError, StorageError
from tests.integration.webgym.tasks.task_rows import some_tasks
from webgym.rollout.sample import Sample, SampleOrigin, share_sample
from webgym.tasks.file import TaskFile

RACERS = 3


@pytest.fixture
def tasks(tmp_path: Path) -> TaskFile:
    return TaskFile(some_tasks(tmp_path / "tasks.jsonl", 20))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "train_trajectories" / "iteration5.sample.jsonl"


def origin(tasks: TaskFile, **changes: Any) -> SampleOrigin:
    fields: dict[str, Any] = {
        "split": "train",
        "iteration": 5,
        "seed": 7,
        "tasks_sha256": tasks.sha256,
    }
    return SampleOrigin(**fields | changes)


def test_ranks_have_disjoint_tasks_and_together_all(path: Path, tasks: TaskFile) -> None:
    sample = share_sample(path, origin(tasks, rank_weights=(2.0, 1.0, 1.0)), tasks)
    indexes = [[task.index for task in sample.tasks(rank)] for rank in range(sample.rank_count)]
    assert [len(part) for part in indexes] == [10, 5, 5]
    assert [sample.count(rank) for rank in range(3)] == [10, 5, 5]
    assert sorted(chain.from_iterable(indexes)) == list(range(20))


def test_every_rank_has_its_share_of_the_hard_tasks(path: Path, tasks: TaskFile) -> None:
    sample = share_sample(path, origin(tasks, rank_weights=(1.0, 1.0)), tasks)
    hard = [
        sum((task.row.get("difficulty", int) or 0) >= 7 for task in sample.tasks(rank))
        for rank in range(2)
    ]
    assert hard == [3, 3]


def test_whoever_comes_later_gets_what_is_there(path: Path, tasks: TaskFile) -> None:
    first = share_sample(path, origin(tasks, size=6), tasks)
    later = share_sample(path, origin(tasks, size=6), tasks)
    assert list(later.tasks(0)) == list(first.tasks(0))
    assert len(list(path.parent.iterdir())) == 1


def test_a_sample_may_be_larger_than_its_file(path: Path, tasks: TaskFile) -> None:
    sample = share_sample(path, origin(tasks, size=50), tasks)
    drawn = list(sample.tasks(0))
    assert [task.index for task in drawn] == list(range(50))
    assert len({task.row.get("task_id", str) for task in drawn}) == 20


def test_training_leaves_out_blocked_domains_and_says_so(path: Path, tasks: TaskFile) -> None:
    sample = share_sample(path, origin(tasks), tasks, lambda: frozenset({"odd.example"}))
    assert sample.header.blocked == {"odd.example": 10}
    assert sample.header.tasks == 10
    websites = [task.row.get("website", str, "") for task in sample.tasks(0)]
    assert all("even" in website for website in websites)


def test_a_blocklist_that_grew_meanwhile_changes_nothing(path: Path, tasks: TaskFile) -> None:
    share_sample(path, origin(tasks), tasks)
    later = share_sample(path, origin(tasks), tasks, lambda: frozenset({"odd.example"}))
    assert later.header.tasks == 20


def test_tests_take_the_file_in_order_with_blocked_domains(path: Path, tasks: TaskFile) -> None:
    test = origin(tasks, split="test", size=3, repeats=4)
    sample = share_sample(path, test, tasks, lambda: frozenset({"odd.example", "even.example"}))
    drawn = list(sample.tasks(0))
    assert [task.row.get("task_id", str) for task in drawn] == ["t0", "t1", "t2"]
    assert {task.repeats for task in drawn} == {4}
    assert sample.rollouts(0) == 12


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": 8}, "seed: 7 in the sample, 8 now"),
        ({"size": 4}, "size: -1 in the sample, 4 now"),
        ({"rank_weights": (2.0, 1.0)}, r"rank_weights: \[1.0\] in the sample, \[2.0,1.0\] now"),
        ({"tasks_sha256": "other"}, 'tasks_sha256: .* in the sample, "other" now'),
        ({"sampler": "ratio", "domain_ratio": {"News": 1}}, 'sampler: "uniform" in the sample'),
    ],
)
def test_another_sample_is_refused_with_what_differs(
    path: Path, tasks: TaskFile, changes: dict[str, Any], said: str
) -> None:
    share_sample(path, origin(tasks), tasks)
    before = path.read_bytes()
    with pytest.raises(IdentityError, match=said):
        share_sample(path, origin(tasks, **changes), tasks)
    assert path.read_bytes() == before


@pytest.mark.parametrize("end", ["", '{"task":20,"repeats":1,"row":{}}\n' * 2])
def test_a_sample_of_another_length_than_it_says_is_noticed(
    path: Path, tasks: TaskFile, end: str
) -> None:
    sample = share_sample(path, origin(tasks), tasks)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + end)
    with pytest.raises(InputsError, match="tasks where its first line says 20"):
        list(sample.tasks(0))


def test_a_line_that_is_no_task_is_named(path: Path, tasks: TaskFile) -> None:
    sample = share_sample(path, origin(tasks), tasks)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], "nonsense\n", *lines[4:]]))
    with pytest.raises(InputsError, match=r"sample\.jsonl:4: this is not a task"):
        list(sample.tasks(0))


@pytest.mark.parametrize(
    ("first", "said"),
    [("", "is not the first line of a sample"), ('{"seed": 1}\n', "not the first line")],
)
def test_a_file_that_is_no_sample_is_refused(path: Path, first: str, said: str) -> None:
    path.parent.mkdir()
    path.write_text(first)
    with pytest.raises(InputsError, match=said):
        Sample(path)


def test_a_sample_of_a_later_version_is_refused(path: Path, tasks: TaskFile) -> None:
    share_sample(path, origin(tasks), tasks)
    path.write_text(path.read_text().replace('"schema_version":1', '"schema_version":2', 1))
    with pytest.raises(InputsError, match="schema version 2, but this program reads 1"):
        Sample(path)


def test_where_no_sample_can_be_written_the_file_is_named(tmp_path: Path, tasks: TaskFile) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="sample"):
        share_sample(tmp_path / "file" / "iteration0.sample.jsonl", origin(tasks), tasks)


def _race(path: Path, file: Path, rank: int, start: Barrier) -> tuple[list[int], list[str]]:
    """One rank, which alone thinks that a domain blocks us."""
    tasks = TaskFile(file)
    weights = origin(tasks, size=12, rank_weights=(2.0, 1.0, 1.0))

    def blocked() -> frozenset[str]:
        start.wait(60)
        return frozenset({("odd.example", "even.example", "none")[rank]})

    sample = share_sample(path, weights, tasks, blocked)
    taken = list(sample.tasks(rank))
    return [task.index for task in taken], [task.row.get("website", str, "") for task in taken]


def test_of_processes_that_draw_at_once_one_wins_and_all_take_its_sample(
    path: Path, tasks: TaskFile
) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, context.Pool(RACERS) as pool:
        start = manager.Barrier(RACERS)
        places = [(path, tasks.path, rank, start) for rank in range(RACERS)]
        taken = pool.starmap(_race, places)
    assert sorted(index for indexes, _ in taken for index in indexes) == list(range(12))
    (left_out,) = Sample(path).header.blocked or {"none": 0}
    assert not any(left_out in website for _, websites in taken for website in websites)
    assert len(list(path.parent.iterdir())) == 1
