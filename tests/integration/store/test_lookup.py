"""Single records of large files."""

import tracemalloc
from pathlib import Path

import pytest

from rollgym.records import Row, Task, encode_attempt
from rollgym.store import CorruptJournalError, InputsError, RecordLookup, StorageError, TaskLookup
from rollgym.store.inputs import encode_task
from tests.builders import record


def write_tasks(path: Path, tasks: list[Task]) -> None:
    path.write_bytes(b"".join(map(encode_task, tasks)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "inputs.jsonl"


def test_tasks_are_found_by_their_index(path: Path) -> None:
    for indexes in ([0, 1, 2], [2, 0, 1], [5, 2**63 - 1, 0], [7]):
        tasks = [Task(index, Row.of({"n": index}), 2) for index in indexes]
        write_tasks(path, tasks)
        with TaskLookup(path) as lookup:
            assert [lookup.task(index) for index in reversed(indexes)] == tasks[::-1]
            for unknown in (-1, 99, 2**64):
                with pytest.raises(KeyError):
                    lookup.task(unknown)


def test_rows_of_any_length_are_found(path: Path) -> None:
    tasks = [Task(index, Row.of({"text": "é" * (index * 40_000)})) for index in range(5)]
    write_tasks(path, tasks)
    with TaskLookup(path) as lookup:
        assert all(lookup.task(task.index) == task for task in tasks)


def test_a_line_that_is_no_task_is_named(path: Path) -> None:
    write_tasks(path, [Task(0, Row.of({}))])
    for wrong in (b"{}\n", b'{"task":-1,"repeats":1,"row":{}}\n', b'{"task":%d,' % 2**70):
        line = wrong if wrong.endswith(b"\n") else wrong + b'"repeats":1,"row":{}}\n'
        path.write_bytes(encode_task(Task(0, Row.of({}))) + line)
        with pytest.raises(InputsError, match=rf"{path}:2: this line is not a valid task"):
            TaskLookup(path)


def test_a_file_that_changes_meanwhile_is_an_error_and_no_crash(path: Path) -> None:
    write_tasks(path, [Task(0, Row.of({}))])
    with TaskLookup(path) as lookup:
        path.write_bytes(b"garbage\n")
        with pytest.raises(InputsError, match="task 0 cannot be read"):
            lookup.task(0)


def test_a_file_that_is_not_there_is_an_error(path: Path) -> None:
    with pytest.raises(StorageError, match="reading the inputs"):
        TaskLookup(path)
    with RecordLookup() as lookup, pytest.raises(StorageError, match="reading the journal"):
        lookup.record(path, 0)


def test_a_lookup_holds_no_rows(path: Path) -> None:
    write_tasks(path, [Task(index, Row.of({"text": "x" * 1000})) for index in range(2_000)])
    tracemalloc.start()
    try:
        with TaskLookup(path) as lookup:
            assert lookup.task(1_999).index == 1_999
            assert tracemalloc.get_traced_memory()[0] < 2_000 * 50
    finally:
        tracemalloc.stop()


def test_records_are_found_where_they_stand(tmp_path: Path) -> None:
    journals = [tmp_path / "journal.jsonl", tmp_path / "journal-0-of-2.jsonl"]
    places = []
    for number, journal in enumerate(journals):
        offset = 0
        with journal.open("wb") as file:
            for task in range(3):
                attempt = record(task, number, attempt=task + 1)
                places.append((journal, offset, attempt))
                offset += file.write(encode_attempt(attempt))
    with RecordLookup() as lookup:
        for journal, offset, attempt in reversed(places):
            assert lookup.record(journal, offset) == attempt
        with pytest.raises(CorruptJournalError, match=r"journal.jsonl:1: this line"):
            lookup.record(journals[0], 1)
        with pytest.raises(CorruptJournalError):
            lookup.record(journals[0], 10**9)


def test_records_are_found_in_a_journal_that_grows(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    first, second = encode_attempt(record(0)), encode_attempt(record(1))
    journal.write_bytes(first)
    with RecordLookup() as lookup:
        assert lookup.record(journal, 0).task == 0
        with journal.open("ab") as file:
            file.write(second)
        assert lookup.record(journal, len(first)).task == 1
