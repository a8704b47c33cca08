"""Which records stand, as they come in whatever order."""

from collections.abc import Iterable
from pathlib import Path

from rollgym.records import Attempt, FailureKind, OmitReason, Omitted, encode_attempt
from rollgym.store import journal_paths, read_records
from rollgym.viewer.formats.rows import JOURNAL
from tests.builders import failed, record, write_journal
from tests.integration.viewer.index.sources import (
    PATIENCE,
    append,
    column,
    indexed,
    rows,
    run,
    source,
)
from tests.integration.viewer.rollouts import failure, rollout, write

OMITTED = Omitted(OmitReason.SKIPPED)


def outcome_flags(directory: Path, attempts: Iterable[Attempt]) -> list[int]:
    write_journal(directory / "journal.jsonl", attempts)
    with indexed(run(directory)) as index:
        return column(index, "is_outcome")


def test_an_attempt_that_was_followed_by_another_never_stands(tmp_path: Path) -> None:
    tried = [record(attempt=1, final=False, outcome=failed()), record(attempt=2)]
    assert outcome_flags(tmp_path, tried) == [0, 1]
    assert outcome_flags(tmp_path, tried[:1]) == [0]


def test_of_a_journal_only_one_outcome_stands_whatever_the_order(tmp_path: Path) -> None:
    ends = [
        record(attempt=3, outcome=OMITTED),
        record(attempt=1),
        record(attempt=4, outcome=failed()),
        record(attempt=2),
        record(attempt=2, repeat=1, outcome=OMITTED),
        record(attempt=1, repeat=1, outcome=failed()),
    ]
    assert outcome_flags(tmp_path, ends) == [0, 0, 0, 1, 0, 1]
    assert outcome_flags(tmp_path, reversed(ends)) == [1, 0, 1, 0, 0, 0]


def test_the_index_agrees_with_the_store(tmp_path: Path) -> None:
    attempts = [
        record(task, repeat, attempt=attempt, final=attempt % 2 == 0 or task == 3, outcome=outcome)
        for task in range(4)
        for repeat in range(2)
        for attempt, outcome in enumerate((failed(), None, OMITTED, failed()), 1)
        if attempt <= task + 1
    ]
    found = outcome_flags(tmp_path, attempts)
    stored = list(read_records(journal_paths(tmp_path)))
    assert [bool(stands) for stands in found] == [
        current and entry.attempt.final for entry, current in stored
    ]


def test_an_end_that_comes_later_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    write_journal(journal, [record(attempt=1, outcome=failed(FailureKind.TIMEOUT)), record(1)])
    with indexed(run(tmp_path)) as index:
        assert column(index, "is_outcome") == [1, 1]
        append(journal, encode_attempt(record(attempt=2)))
        assert index.extend(PATIENCE)
        assert column(index, "is_outcome") == [0, 1, 1]
    append(journal, encode_attempt(record(attempt=3)))
    with indexed(run(tmp_path)) as index:  # one that was opened again knows the same
        assert column(index, "is_outcome") == [0, 1, 0, 1]


def test_shards_of_one_run_are_one(tmp_path: Path) -> None:
    journals = [tmp_path / f"journal-{number}-of-2.jsonl" for number in (0, 1)]
    write_journal(journals[0], [record(attempt=1, outcome=failed())])
    write_journal(journals[1], [record(attempt=1)])
    with indexed(source(*journals, kind=JOURNAL, path=tmp_path)) as index:
        assert column(index, "is_outcome") == [0, 1]


def test_whatever_is_completed_in_a_file_of_rollouts_stands(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(), rollout(), failure(), failure(1), failure(1)])
    with indexed(source(path)) as index:
        assert column(index, "is_outcome") == [1, 1, 0, 1, 0]


def test_a_rollout_is_found_in_two_files_and_tasks_are_known_from_either(tmp_path: Path) -> None:
    ended = write(tmp_path / "x.jsonl", [rollout(0, question="Which?"), rollout(1)])
    broken = write(tmp_path / "x_failures.jsonl", [failure(0), failure(2)])
    with indexed(source(ended, broken)) as index:
        assert column(index, "is_outcome") == [1, 1, 0, 1]
        titles = rows(index, "SELECT title FROM words ORDER BY entry")
        assert titles == [("Which?",), ("What is the weather?",), ("Which?",), ("",)]
        keys = column(index, "task_key")
        assert keys[0] == keys[2]
        assert keys[3] is None


def test_records_without_a_number_all_stand(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl", [b'{"reward":1}\n', b'{"reward":1,"_ng_task_index":0}\n'] * 2
    )
    with indexed(source(path)) as index:
        assert column(index, "is_outcome") == [1] * 4


def test_a_last_line_that_is_taken_back_gives_the_old_end_its_place_again(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    write_journal(journal, [record(attempt=1, outcome=failed())])
    whole = journal.read_bytes()
    append(journal, encode_attempt(record(attempt=2))[:-1])
    with indexed(run(tmp_path)) as index:
        assert column(index, "is_outcome") == [0, 1]
        journal.write_bytes(whole)
        assert index.extend(PATIENCE)
        assert column(index, "is_outcome") == [1]
