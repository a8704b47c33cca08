"""What the inputs of a run tell about its records."""

from pathlib import Path

import msgspec
import pytest

from rollgym.records import Row, Task
from rollgym.viewer.source import EntryId
from tests.builders import failed, record, write_journal
from tests.integration.viewer.index.sources import PATIENCE, append, column, indexed, rows, run


def task_line(index: int, **row: object) -> bytes:
    return b'{"task":%d,"repeats":1,"row":%b}\n' % (index, msgspec.json.encode(row))


def test_records_get_the_facts_of_their_tasks(tmp_path: Path) -> None:
    inputs = tmp_path / "inputs.jsonl"
    asked = {"question": "How many?", "difficulty": 4, "domain": "Sums", "agent_ref": {"name": "a"}}
    inputs.write_bytes(task_line(0, **asked) + b"no task\n" + task_line(7, question="Why?"))
    write_journal(tmp_path / "journal.jsonl", [record(7, outcome=failed()), record(0), record(9)])
    with indexed(run(tmp_path)) as index:
        assert rows(index, "SELECT title FROM words ORDER BY entry") == [
            ("Why?",),
            ("How many?",),
            ("",),
        ]
        assert column(index, "difficulty") == [None, 4, None]
        assert column(index, "domain") == [None, "Sums", None]
        assert column(index, "agent") == [None, "a", None]
        assert index.input_row(0) == Row.of(asked)
        assert index.input_row(7) == Row.of({"question": "Why?"})
        assert index.input_row(1) is None
        state = index.state()
        assert state.read == state.size


def test_of_inputs_that_are_gone_there_are_no_rows_any_more(tmp_path: Path) -> None:
    inputs = tmp_path / "inputs.jsonl"
    inputs.write_bytes(task_line(0, question="Why?"))
    write_journal(tmp_path / "journal.jsonl", [record(0)])
    with indexed(run(tmp_path)) as index:
        assert index.input_row(0) is not None
        inputs.write_bytes(b"{")
        assert index.input_row(0) is None
        inputs.unlink()
        assert index.input_row(0) is None


def test_files_that_become_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    journal, inputs = folder / "journal.jsonl", folder / "inputs.jsonl"
    of = msgspec.structs.replace(run(folder), root=folder.resolve())
    with indexed(of) as index:
        write_journal(tmp_path / "journal.jsonl", [record(0)])
        (tmp_path / "inputs.jsonl").write_bytes(task_line(0, question="Why?"))
        for path in (journal, inputs):
            path.symlink_to(tmp_path / path.name)
        assert index.extend(PATIENCE)
        assert (index.state().entries, index.input_row(0)) == (0, None)
        for path in (journal, inputs):
            path.unlink()
            (tmp_path / path.name).rename(path)
        assert index.extend(PATIENCE)
        assert index.state().entries == 1
        assert index.input_row(0) == Row.of({"question": "Why?"})
        assert index.record(EntryId(0, 1))
        for path in (journal, inputs):
            path.rename(tmp_path / path.name)
            path.symlink_to(tmp_path / path.name)
        assert index.input_row(0) is None
        with pytest.raises(KeyError):
            index.record(EntryId(0, 1))


def test_inputs_that_come_after_the_records_are_spread_over_them(tmp_path: Path) -> None:
    write_journal(tmp_path / "journal.jsonl", [record(0), record(1)])
    with indexed(run(tmp_path)) as index:
        assert column(index, "task_key") == [None, None]
        assert index.input_row(0) is None
        version = index.state().version
        (tmp_path / "inputs.jsonl").write_bytes(task_line(0, question="Which?", difficulty=2))
        assert index.extend(PATIENCE)
        assert index.state().version > version
        assert column(index, "difficulty") == [2, None]
        append(tmp_path / "inputs.jsonl", task_line(1, question="What?")[:-1])
        assert index.extend(PATIENCE)
        assert rows(index, "SELECT title FROM words ORDER BY entry") == [("Which?",), ("What?",)]
        assert None not in column(index, "task_key")


def test_rows_that_name_their_task_serve_as_inputs(tmp_path: Path) -> None:
    row = {"question": "Where?", "_ng_task_index": 3}
    (tmp_path / "inputs.jsonl").write_bytes(msgspec.json.encode(row) + b"\n")
    write_journal(tmp_path / "journal.jsonl", [record(3)])
    with indexed(run(tmp_path)) as index:
        assert rows(index, "SELECT title FROM words") == [("Where?",)]
        assert index.input_row(3) == Task(3, Row.of(row)).row
