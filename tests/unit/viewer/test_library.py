"""No two sources are called the same."""

from pathlib import Path

from rollgym.viewer.library import distinct_titles
from rollgym.viewer.source import ViewerSource


def source(path: str, title: str = "", id_: str = "") -> ViewerSource:
    return ViewerSource(
        id=id_ or path, title=title or Path(path).name, kind="rollouts", path=Path(path), parts=()
    )


def titles(*sources: ViewerSource) -> list[str]:
    return list(distinct_titles(sources).values())


def test_a_title_that_no_other_has_stays() -> None:
    assert titles(source("/r/a/x.jsonl"), source("/r/b/y.jsonl")) == ["x.jsonl", "y.jsonl"]


def test_the_nearest_folder_in_which_they_differ_tells_them_apart() -> None:
    assert titles(
        source("/r/a/x.jsonl"), source("/r/b/x.jsonl"), source("/r/b/y.jsonl")
    ) == ["a/x.jsonl", "b/x.jsonl", "y.jsonl"]  # fmt: skip


def test_folders_that_all_of_them_have_tell_nothing() -> None:
    name = "demo train iteration 5"
    at = "demo/train_trajectories/iteration5.run"
    assert titles(source(f"/one/{at}", name), source(f"/two/{at}", name)) == [
        f"one/{name}",
        f"two/{name}",
    ]


def test_each_has_as_many_folders_as_it_takes() -> None:
    paths = ("/r/a/s1/x.jsonl", "/r/b/s1/x.jsonl", "/r/b/s2/x.jsonl", "/x.jsonl")
    assert titles(*map(source, paths)) == ["a/s1/x.jsonl", "b/s1/x.jsonl", "s2/x.jsonl", "x.jsonl"]


def test_what_no_folder_tells_apart_its_id_does() -> None:
    same = (source("/r/a.run", "demo", "demo"), source("/r/a.pt", "demo", "demo-pt"))
    assert titles(*same) == ["demo (demo)", "demo (demo-pt)"]
