"""Rows of the user's own files."""

from pathlib import Path

import pytest

from rollgym.store import InputsError, StorageVanishedError, read_rows


def test_rows_come_lazily_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(b'{"a": 1}\n\n{"a": 2}\r\n  \n{"a": 3}')
    assert [row.get("a", int) for row in read_rows(path)] == [1, 2, 3]


def test_a_bad_row_is_named_by_file_and_line(tmp_path: Path) -> None:
    cases: list[bytes] = [b"{", b"[1]", b'{"a": NaN}', b'{"a": "\xff"}']
    for number, bad in enumerate(cases):
        directory = tmp_path / str(number)
        directory.mkdir()
        path = directory / "tasks.jsonl"
        path.write_bytes(b'{"a": 1}\n\n' + bad + b"\n")
        rows = read_rows(path)
        next(rows)
        with pytest.raises(InputsError, match=r"tasks\.jsonl:3: this line is not a valid row"):
            next(rows)


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StorageVanishedError, match="while reading the rows: check the path"):
        next(read_rows(tmp_path / "none.jsonl"))
