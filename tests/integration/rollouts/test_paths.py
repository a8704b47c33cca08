"""The paths of a collection's files."""

from pathlib import Path

import pytest

from rollgym.rollouts.paths import RolloutPaths, rename_old_files, run_beside
from rollgym.store import InputsError, Shard


def test_every_file_is_named_after_the_output() -> None:
    paths = RolloutPaths.of(Path("results/v2.0_x.jsonl"))
    assert [str(path) for path in (*paths.derived, paths.run)] == [
        "results/v2.0_x.jsonl",
        "results/v2.0_x_failures.jsonl",
        "results/v2.0_x_materialized_inputs.jsonl",
        "results/v2.0_x_aggregate_metrics.json",
        "results/v2.0_x.run",
    ]


def test_shards_share_a_run_and_nothing_else() -> None:
    one, other = (RolloutPaths.of(Path("x.jsonl"), Shard(index, 2)) for index in range(2))
    assert one.run == other.run == Path("x.run")
    assert set(one.derived).isdisjoint(other.derived)
    assert one.output == Path("x_shard-0-of-2.jsonl")


def test_another_name_is_rejected() -> None:
    for name in ("x.json", "x", ".jsonl", "x.jsonl.gz", "x.JSONL"):
        with pytest.raises(InputsError, match=r"must end in \.jsonl"):
            RolloutPaths.of(Path(name))


def test_the_run_of_a_file_is_found_beside_it(tmp_path: Path) -> None:
    output = tmp_path / "x.jsonl"
    assert run_beside(output) is None
    (tmp_path / "x.run").mkdir()
    assert run_beside(output) == run_beside(tmp_path / "x_shard-1-of-3.jsonl") == tmp_path / "x.run"
    assert run_beside(tmp_path / "x.json") is None
    (tmp_path / "x_shard-1-of-3.run").mkdir()
    assert run_beside(tmp_path / "x_shard-1-of-3.jsonl") == tmp_path / "x_shard-1-of-3.run"


def test_renamed_files_stay_together_and_are_never_overwritten(tmp_path: Path) -> None:
    paths = RolloutPaths.of(tmp_path / "x.jsonl")
    for round_ in ("first", "second"):
        for path in paths.derived:
            path.write_text(round_)
        if round_ == "second":
            paths.failures.unlink()
        rename_old_files(paths)
    assert not any(path.exists() for path in paths.derived)
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found["x.jsonl.previous-1"] == found["x_failures.jsonl.previous-1"] == "first"
    assert found["x.jsonl.previous-2"] == "second"
    assert "x_failures.jsonl.previous-2" not in found
