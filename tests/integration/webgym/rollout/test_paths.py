"""Which iteration a command means, and where its files are."""

from pathlib import Path

import pytest

from tests.integration.webgym.rollout.rank_files import a_report
from webgym.rollout.iteration import (
    IterationPaths,
    find_iteration,
    is_finished,
    rank_suffix,
    write_report,
)


def paths(
    save_path: Path, iteration: int, rank: int | None = None, count: int = 1
) -> IterationPaths:
    whole = IterationPaths(save_path, "train", iteration)
    return whole if rank is None else whole.of_rank(rank, count)


def finish(of: IterationPaths, *, final: bool = True) -> None:
    write_report(of.metrics, a_report(of, final=final))


def test_files_are_where_the_field_looks_for_them(tmp_path: Path) -> None:
    rank = IterationPaths(tmp_path, "test", 1).of_rank(0, 2)
    names = [
        str(path.relative_to(tmp_path))
        for path in (rank.trajectories, rank.run, rank.sample, rank.metrics, rank.monitor)
    ]
    assert names == [
        "test_trajectories/test_trajectories.pt.iteration1_rank_0",
        "test_trajectories/iteration1_rank_0.run",
        "test_trajectories/iteration1.sample.jsonl",
        "test_trajectories/metrics.iteration1_rank_0.json",
        "test_trajectories/monitor.iteration1_rank_0.json",
    ]
    assert rank.screenshots == tmp_path / "screenshots"
    assert rank.blocklist == tmp_path / "blocklist.jsonl"
    assert (
        IterationPaths(tmp_path, "test", 1).of_rank(0, 1).trajectories.name.endswith("iteration1")
    )


def test_the_first_iteration_is_0(tmp_path: Path) -> None:
    assert find_iteration(tmp_path / "new", "train") == 0


def test_one_that_was_begun_is_continued_and_after_a_finished_one_comes_the_next(
    tmp_path: Path,
) -> None:
    first = paths(tmp_path, 0)
    first.folder.mkdir()
    first.sample.touch()
    assert find_iteration(tmp_path, "train") == 0
    finish(first, final=False)
    assert find_iteration(tmp_path, "train") == 0
    finish(first)
    assert find_iteration(tmp_path, "train") == 1


@pytest.mark.parametrize("kind", ["sample", "run", "trajectories", "metrics", "monitor"])
def test_any_file_of_an_iteration_says_that_it_was_begun(tmp_path: Path, kind: str) -> None:
    path: Path = getattr(paths(tmp_path, 12, 1, 3), kind)
    path.parent.mkdir()
    path.touch()
    assert find_iteration(tmp_path, "train") == 12


def test_files_of_other_names_say_nothing(tmp_path: Path) -> None:
    folder = paths(tmp_path, 0).folder
    folder.mkdir()
    for name in ("iteration7.txt", "iterationx.run", ".iteration7.sample.jsonl.abc.tmp", "notes"):
        (folder / name).touch()
    assert find_iteration(tmp_path, "train") == 0


def test_splits_are_counted_apart(tmp_path: Path) -> None:
    finish(paths(tmp_path, 3))
    assert find_iteration(tmp_path, "train") == 4
    assert find_iteration(tmp_path, "test") == 0


def test_an_iteration_of_several_ranks_is_finished_when_they_were_put_together(
    tmp_path: Path,
) -> None:
    for rank in range(3):
        finish(paths(tmp_path, 5, rank, 3))
    assert find_iteration(tmp_path, "train") == 5
    finish(paths(tmp_path, 5), final=False)
    assert find_iteration(tmp_path, "train") == 5
    finish(paths(tmp_path, 5))
    assert find_iteration(tmp_path, "train") == 6


@pytest.mark.parametrize("content", ["", '{"final": true}', "[]", '{"final": tr'])
def test_metrics_that_cannot_be_read_finish_nothing(tmp_path: Path, content: str) -> None:
    own = paths(tmp_path, 0)
    own.folder.mkdir()
    own.metrics.write_text(content)
    assert not is_finished(own)


def test_one_rank_has_no_suffix() -> None:
    assert [rank_suffix(0, 1), rank_suffix(0, 2), rank_suffix(1, 2)] == ["", "_rank_0", "_rank_1"]
