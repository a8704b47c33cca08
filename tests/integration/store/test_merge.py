"""Merging shards: exact, and the same whatever the order."""

import random
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollgym.metrics import Metrics
from rollgym.records import Attempt, Completed, OmitReason, Omitted, RecordState
from rollgym.store import (
    IdentityError,
    ManifestError,
    RefusedError,
    Shard,
    StorageError,
    journal_paths,
    merge,
    merge_runs,
    open_run,
    read_manifest,
    read_records,
)
from tests.builders import (
    failed,
    make_run,
    read_json_lines,
    record,
    tasks,
    without_checksums,
    write_journal,
)

TASKS, REPEATS = 4, 2

outcomes = st.one_of(
    st.floats(-1, 1).map(Completed),
    st.just(failed()),
    st.just(Omitted(OmitReason.STRAGGLER)),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Attempt]:
    """What shards of one run may have written of it, rollouts run twice by mistake included."""
    records: list[Attempt] = []
    for task in range(TASKS):
        for repeat in range(REPEATS):
            records += [
                record(
                    task,
                    repeat,
                    repeats=REPEATS,
                    attempt=number,
                    final=draw(st.booleans()),
                    outcome=failed(),
                )
                for number in range(1, draw(st.integers(1, 3)))
            ]
            for _ in range(draw(st.integers(0, 2))):
                number = draw(st.integers(3, 4))
                outcome = draw(outcomes)
                records.append(
                    record(task, repeat, repeats=REPEATS, attempt=number, outcome=outcome)
                )
    return records


def run_with(directory: Path, journals: list[list[Attempt]]) -> Path:
    make_run(directory, TASKS, REPEATS).close()
    (directory / "journal.jsonl").unlink()
    for number, records in enumerate(journals):
        write_journal(directory / f"journal-{number}-of-{len(journals)}.jsonl", records)
    return directory


def summary_of(directory: Path) -> object:
    metrics = Metrics()
    for entry, current in read_records(journal_paths(directory)):
        metrics.add(entry.attempt, RecordState.CURRENT if current else RecordState.SUPERSEDED)
    return metrics.summary()


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    history=histories(), parts=st.integers(1, 4), copies=st.integers(1, 2), seed=st.integers(0, 99)
)
def test_the_merged_run_does_not_depend_on_division_order_or_copies(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[Attempt],
    parts: int,
    copies: int,
    seed: int,
) -> None:
    tmp_path = tmp_path_factory.mktemp("merge")
    whole = run_with(tmp_path / "whole", [history])
    merge_runs([whole], tmp_path / "merged-whole")

    chance = random.Random(seed)
    shuffled = history * copies
    chance.shuffle(shuffled)
    divided = [shuffled[part::parts] for part in range(parts)]
    merge_runs([run_with(tmp_path / "divided", divided)], tmp_path / "merged-divided")

    for name in ("journal.jsonl", "superseded.jsonl"):
        one, other = (tmp_path / merged / name for merged in ("merged-whole", "merged-divided"))
        assert one.exists() == other.exists()
        assert not one.exists() or one.read_bytes() == other.read_bytes()

    merged = read_json_lines(tmp_path / "merged-whole" / "journal.jsonl")
    completed = [
        (line["task"], line["repeat"])
        for line in merged
        if line["final"] and line["outcome"]["status"] == "completed"
    ]
    assert len(completed) == len(set(completed))
    expected = {a.key for a in history if a.final and isinstance(a.outcome, Completed)}
    assert set(completed) == {(key.task, key.repeat) for key in expected}


def test_separate_directories_of_one_run_merge(tmp_path: Path) -> None:
    for index in range(2):
        with make_run(tmp_path / f"part{index}", 4, shard=Shard(index, 2)) as run:
            for task in run.inputs:
                run.append(record(task.index))
            run.blobs.put_now(f"picture {index}".encode(), ".png")
    report = merge_runs([tmp_path / "part0", tmp_path / "part1"], tmp_path / "all")
    assert (report.records, report.duplicates, report.conflicts) == (4, 0, 0)
    with make_run(tmp_path / "all", 4) as run:
        assert all(run.progress.status(task, 0) for task in range(4))
    assert len(list((tmp_path / "all" / "blobs").rglob("*.png"))) == 2
    assert summary_of(tmp_path / "all") == summary_of(
        run_with(tmp_path / "other", [[record(task) for task in range(4)]])
    )


def test_unknown_fields_of_a_record_survive_merging(tmp_path: Path) -> None:
    run_with(tmp_path / "run", [[record(0)]])
    journal = tmp_path / "run" / "journal-0-of-1.jsonl"
    line = without_checksums(journal.read_bytes()).replace(
        b'"v":1', b'"v":1,"novel":{"x": [1.0, 2]}'
    )
    line = line.replace(b'"reward":1.0', b'"reward":1.0,"deep":[ 1 ]')
    journal.write_bytes(line)
    merge_runs([tmp_path / "run"], tmp_path / "merged")
    assert (tmp_path / "merged" / "journal.jsonl").read_bytes() == line


def test_a_second_completion_is_set_aside_and_reported(tmp_path: Path) -> None:
    run_with(
        tmp_path / "run",
        [[record(0, outcome=Completed(0.25))], [record(0, outcome=Completed(0.75))]],
    )
    report = merge_runs([tmp_path / "run"], tmp_path / "merged")
    assert (report.records, report.conflicts) == (1, 1)
    kept = read_json_lines(tmp_path / "merged" / "journal.jsonl")
    aside = read_json_lines(tmp_path / "merged" / "superseded.jsonl")
    rewards = {line["outcome"]["reward"] for line in kept + aside}
    assert rewards == {0.25, 0.75}
    (winner,) = [e for e, current in read_records(journal_paths(tmp_path / "run")) if current]
    assert isinstance(winner.attempt.outcome, Completed)
    assert winner.attempt.outcome.reward == kept[0]["outcome"]["reward"]


def test_superseded_records_of_an_earlier_merge_stay_superseded(tmp_path: Path) -> None:
    rewards = [[record(0, outcome=Completed(0.25))], [record(0, outcome=Completed(0.75))]]
    merge_runs([run_with(tmp_path / "run", rewards)], tmp_path / "once")
    report = merge_runs([tmp_path / "once"], tmp_path / "twice")
    assert (report.records, report.conflicts) == (1, 1)
    for name in ("journal.jsonl", "superseded.jsonl"):
        once, twice = (tmp_path / merged / name for merged in ("once", "twice"))
        assert once.read_bytes() == twice.read_bytes()


def test_an_unfinished_last_line_is_left_out_and_counted(tmp_path: Path) -> None:
    run_with(tmp_path / "run", [[record(0)], [record(1)]])
    with (tmp_path / "run" / "journal-0-of-2.jsonl").open("ab") as file:
        file.write(b'{"v":1,"ta')
    report = merge_runs([tmp_path / "run"], tmp_path / "merged")
    assert (report.records, report.torn) == (2, 1)


def test_a_full_disk_is_a_storage_error_and_leaves_no_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    run_with(tmp_path / "run", [[record(0)]])
    monkeypatch.setattr(merge, "_index_lines", full)
    with pytest.raises(StorageError, match="database or disk is full while merging"):
        merge_runs([tmp_path / "run"], tmp_path / "merged")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_different_runs_do_not_merge(tmp_path: Path) -> None:
    make_run(tmp_path / "one", seed=1).close()
    make_run(tmp_path / "two", seed=2).close()
    with pytest.raises(IdentityError, match="seed: 1 in .*/one, 2 in .*/two"):
        merge_runs([tmp_path / "one", tmp_path / "two"], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_merging_wants_runs_and_a_new_place(tmp_path: Path) -> None:
    make_run(tmp_path / "run").close()
    with pytest.raises(RefusedError, match="exists already"):
        merge_runs([tmp_path / "run"], tmp_path)
    with pytest.raises(ManifestError, match="holds no run"):
        merge_runs([tmp_path / "run", tmp_path], tmp_path / "merged")
    with pytest.raises(RefusedError, match="nothing to merge"):
        merge_runs([], tmp_path / "merged")


def test_the_parts_of_a_run_are_disjoint_and_complete(tmp_path: Path) -> None:
    seen: list[int] = []
    for index in range(3):
        with open_run(tmp_path, tasks(10, 2), shard=Shard(index, 3)) as run:
            part = [task.index for task in run.inputs]
            assert run.inputs.expected == 2 * len(part)
            seen += part
    assert sorted(seen) == list(range(10))
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert manifest.identity.inputs.rollouts == 20
