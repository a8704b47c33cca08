"""Files that grow, break off, are replaced, or hold what is not a record."""

import os
import time
from pathlib import Path

import pytest

from rollgym.store import StorageError
from rollgym.viewer.index import lines, source_index
from rollgym.viewer.index.source_index import SourceIndex
from rollgym.viewer.source import EntryId
from tests.integration.viewer.index.sources import (
    PATIENCE,
    append,
    column,
    indexed,
    opened,
    rows,
    source,
)
from tests.integration.viewer.rollouts import failure, rollout, write


def change(path: Path, old: bytes = b"", new: bytes = b"", *, seconds_ago: float) -> None:
    """Write something else of the same length in the middle of a file, by its clock then."""
    content = path.read_bytes()
    with path.open("r+b") as file:
        file.write(content.replace(old, new))
    assert path.stat().st_size == len(content)
    then = time.time() - seconds_ago
    os.utime(path, (then, then))


def test_every_record_can_be_had_again_with_its_numbers(tmp_path: Path) -> None:
    lines_of_it = [rollout(task, repeat, reward=repeat) for task in range(3) for repeat in range(2)]
    path = write(tmp_path / "x.jsonl", lines_of_it)
    with indexed(source(path)) as index:
        records = [index.record(EntryId(0, number)) + b"\n" for number in range(1, 7)]
        assert records == lines_of_it
        found = rows(index, "SELECT id, task, repeat, reward, success FROM entry ORDER BY id")
        assert found[3:5] == [(4, 1, 1, 1.0, 1), (5, 2, 0, 0.0, 0)]
        with pytest.raises(KeyError, match="0-7"):
            index.record(EntryId(0, 7))
        with pytest.raises(KeyError, match="3-1"):
            index.record(EntryId(3, 1))


def test_a_line_that_is_no_row_is_an_entry_of_its_own_and_a_blank_one_is_none(
    tmp_path: Path,
) -> None:
    odd = [
        b"\n",
        b" \t\r\n",
        b"{\n",
        b"[1]\n",
        b"\xff\n",
        b'{"a":' + b"[" * 10_000 + b"\n",
        b'{"reward":"a",\n',
    ]
    with indexed(source(write(tmp_path / "x.jsonl", [*odd, rollout(7)]))) as index:
        assert column(index, "id") == [3, 4, 5, 6, 7, 8]
        assert column(index, "status") == ["unreadable"] * 5 + ["completed"]
        assert column(index, "is_outcome") == [1] * 6
        assert index.record(EntryId(0, 5)) == b"\xff"
        assert index.state().entries == 6
        told = rows(index, "SELECT title, detail FROM words ORDER BY entry")[:5]
        assert [title for title, _ in told] == [f"unreadable line {line}" for line in range(3, 8)]
        assert [problem for _, problem in told] == [
            "Input data was truncated",
            "Expected `object`, got `array`",
            "JSON is malformed: invalid character (byte 0)",
            "it is nested too deeply",
            "Input data was truncated",
        ]


def test_one_document_over_many_lines_is_reported_once(tmp_path: Path) -> None:
    for number, document in enumerate(
        [
            b'[\n  {\n    "reward": 1.0\n  },\n  {\n    "reward": 0.0\n  }\n]\n',
            b'\n [{"reward": 1.0},\n{"reward": 0.0}]',
            b'[{"reward": 1.0}, {"reward": 0.0}]',
            b'[{"reward": 1.0}, {"reward": 0.0}]\n\n',
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = write(folder / "x.jsonl", [document])
        with indexed(source(path)) as index:
            state = index.state()
            assert (state.entries, state.ready) == (0, True)
            assert f"{path} is one JSON document" in state.problem
            assert "jq -c '.[]' x.jsonl > x_lines.jsonl" in state.problem
            write(path, [rollout()])
            assert index.extend(PATIENCE)
            assert (index.state().entries, index.state().problem) == (1, "")


def test_the_command_that_makes_lines_of_a_document_quotes_its_names(tmp_path: Path) -> None:
    with indexed(source(write(tmp_path / "a b;c.jsonl", [b"[{}]\n"]))) as index:
        assert "jq -c '.[]' 'a b;c.jsonl' > 'a b;c_lines.jsonl'" in index.state().problem


def test_an_odd_first_line_hides_no_rows(tmp_path: Path) -> None:
    for number, first in enumerate(
        [b"[INFO] it began\n", b"[\n", b'[{"role": "user"}]\n', b'[{"torn": \n']
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        with indexed(source(write(folder / "x.jsonl", [first, rollout()]))) as index:
            assert column(index, "status") == ["unreadable", "completed"]
            assert index.state().problem == ""


def test_a_number_of_an_odd_type_is_unknown_and_the_others_are_not(tmp_path: Path) -> None:
    line = b'{"_ng_task_index":-4,"_ng_rollout_index":2,"reward":1e999,"success":true}\n'
    with indexed(source(write(tmp_path / "x.jsonl", [line]))) as index:
        found = rows(index, "SELECT status, task, repeat, reward, success FROM entry")
        assert found == [("completed", None, 2, None, 1)]


def test_a_growing_file_is_read_on_and_an_unfinished_line_waited_for(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(0)])
    with indexed(source(path)) as index:
        versions = [index.state().version]
        for piece, known in (
            (rollout(1)[:30], [0]),
            (rollout(1)[30:-1], [0, 1]),  # whole, though without a line break
            (b"\n" + rollout(2), [0, 1, 2]),
        ):
            append(path, piece)
            assert index.extend(PATIENCE)
            assert column(index, "task") == known
            versions.append(index.state().version)
        assert versions[0] == versions[1] < versions[2] < versions[3]
        state = index.state()
        assert (state.read, state.size, state.entries) == (path.stat().st_size,) * 2 + (3,)


def test_a_last_line_without_a_line_break_is_counted_once_however_often_it_is_read(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(0), rollout(1)[:-1]])
    with indexed(source(path)) as index:
        before = index.state()
        assert (before.entries, before.read, before.ready) == (2, before.size, True)
    with indexed(source(path)) as index:
        assert index.state() == before
        change(path, seconds_ago=-3600.0)
        assert index.extend(PATIENCE)
        assert index.state() == before


def test_a_last_line_that_another_one_took_the_place_of_leaves_no_trace(tmp_path: Path) -> None:
    whole, last = rollout(0), rollout(1, verified={"grader": "x"})
    path = write(tmp_path / "x.jsonl", [whole, last[:-1]])
    with indexed(source(path)) as index:
        assert ("grader", 1) in rows(index, "SELECT * FROM field")
        os.truncate(path, len(whole))
        append(path, rollout(2, question="something else"))
        assert index.extend(PATIENCE)
        assert column(index, "task") == [0, 2]
        assert index.record(EntryId(0, 2)) + b"\n" == rollout(2, question="something else")
        assert "grader" not in [name for name, _ in rows(index, "SELECT * FROM field")]
        assert index.state().entries == 2


def test_a_file_that_was_replaced_or_cut_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(0), rollout(1)])
    with indexed(source(path)) as index:
        versions = [index.state().version]
        write(tmp_path / "new", [rollout(5), rollout(6), rollout(7)]).replace(path)
        assert index.extend(PATIENCE)
        assert column(index, "task") == [5, 6, 7]
        versions.append(index.state().version)
        os.truncate(path, len(rollout(5)))
        assert index.extend(PATIENCE)
        assert column(index, "task") == [5]
        versions.append(index.state().version)
        assert versions == sorted(set(versions))
        write(path, [rollout(8), rollout(9), rollout(10)])  # the same file, written again
        assert index.extend(PATIENCE)
        assert column(index, "task") == [8, 9, 10]


def test_a_file_that_was_replaced_while_it_was_closed_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(0), rollout(1)])
    with indexed(source(path)):
        pass
    write(path, [rollout(2), rollout(3), rollout(4)])
    with opened(source(path)) as index:
        assert index.state().entries == 2
        assert index.extend(PATIENCE)
        assert column(index, "task") == [2, 3, 4]


LARGE = [rollout(task, question=f"{task} {'x' * 10_000}") for task in range(20)]
"""The task in the middle is neither where the file begins nor where it ends."""


def test_a_change_in_the_middle_of_a_file_is_noticed_though_its_size_is_the_same(
    tmp_path: Path,
) -> None:
    for number, looked in enumerate([True, False]):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = write(folder / "x.jsonl", LARGE)
        change(path, seconds_ago=1000.0)
        with indexed(source(path)) as index:
            version = index.state().version
            if looked:
                change(path, b'"10 xxx', b'"77 xxx', seconds_ago=500.0)
                assert index.extend(PATIENCE)
                assert titles(index)[9:12] == ["9", "77", "11"]
                assert index.state().version > version
        if not looked:
            change(path, b'"10 xxx', b'"77 xxx', seconds_ago=500.0)
            with indexed(source(path)) as index:
                assert titles(index)[9:12] == ["9", "77", "11"]


def test_a_change_is_told_from_growth_only_in_a_file_at_rest(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", LARGE)
    change(path, seconds_ago=1000.0)
    with indexed(source(path)) as index:
        version = index.state().version
        change(path, seconds_ago=-3600.0)  # the time of a file changes before its size does
        assert index.extend(PATIENCE)
        assert index.state().version == version
        append(path, rollout(20))
        assert index.extend(PATIENCE)
        change(path, seconds_ago=500.0)
        assert index.extend(PATIENCE)
        assert index.state().version == version + 1  # it grew by one record, and was not read again


def test_a_change_while_a_file_is_being_read_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", LARGE)
    change(path, seconds_ago=1000.0)
    with opened(source(path)) as index:
        while index.state().entries < 12:
            assert not index.extend(0.0)
        change(path, b'"10 xxx', b'"77 xxx', seconds_ago=500.0)
        assert index.extend(PATIENCE)
        assert titles(index)[9:12] == ["9", "77", "11"]


def titles(index: SourceIndex) -> list[str]:
    """How the titles begin."""
    found = rows(index, "SELECT title FROM words ORDER BY entry")
    return [title.split()[0] for (title,) in found]


def test_an_index_that_is_there_is_not_built_again(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(0)])
    with indexed(source(path)) as index:
        before = index.state()
    with opened(source(path)) as index:
        assert index.state() == before
        append(path, rollout(1))
        assert index.extend(PATIENCE)
        assert column(index, "task") == [0, 1]
        assert index.state().version == before.version + 1


def test_a_large_file_is_read_in_portions_which_can_be_seen(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(task) for task in range(3)])
    with opened(source(path)) as index:
        assert index.state().entries == 0
        assert not index.extend(0.0)
        state = index.state()
        assert (state.entries, state.ready) == (1, False)
        assert 0 < state.read < state.size
        assert index.extend(PATIENCE)
        assert index.state().ready


def test_a_line_too_long_to_be_held_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (lines, source_index):
        monkeypatch.setattr(module, "LONGEST_RECORD", 3000)
    path = write(tmp_path / "x.jsonl", [rollout(question="x" * 5000), rollout(1)])
    with indexed(source(path)) as index:
        assert column(index, "status") == ["unreadable", "completed"]
        with pytest.raises(StorageError, match="record 1 is longer than"):
            index.record(EntryId(0, 1))
        assert index.record(EntryId(0, 2)) + b"\n" == rollout(1)


def test_lines_of_any_length_are_found_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_BLOCK", 64)
    contents = [b"x" * length for length in (0, 1, 62, 63, 64, 65, 127, 128, 129, 1000, 5)]
    path = write(tmp_path / "x.jsonl", [content + b"\n" for content in contents] + [b"end"])
    with path.open("rb") as file:
        found = list(lines.read_lines(file.fileno(), 0))
    assert [line.content for line in found] == [*contents, b"end"]
    assert [line.finished for line in found] == [True] * len(contents) + [False]
    text = path.read_bytes()
    assert [text[line.position :][: line.length] for line in found] == [*contents, b"end"]


def test_a_long_line_is_measured_but_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_BLOCK", 64)
    monkeypatch.setattr(lines, "LONGEST_RECORD", 100)
    path = write(tmp_path / "x.jsonl", [b"a" * 100 + b"\n", b"b" * 101 + b"\n", b"c" * 300])
    with path.open("rb") as file:
        found = list(lines.read_lines(file.fileno(), 0))
    assert [(line.length, line.content is None) for line in found] == [
        (100, False),
        (101, True),
        (300, True),
    ]


def test_what_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    with indexed(source(one, other)) as index:
        state = index.state()
        assert (state.entries, state.size, state.problem) == (0, 0, "")
        write(other, [rollout(1)])
        assert index.extend(PATIENCE)
        write(one, [rollout(0)])
        assert index.extend(PATIENCE)
        assert [EntryId.of(number) for number in column(index, "id")] == [(0, 1), (1, 1)]
        assert column(index, "task") == [0, 1]


def test_what_cannot_be_read_is_reported_and_the_rest_is_shown(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    good = write(tmp_path / "x.jsonl", [rollout()])
    with indexed(source(tmp_path / "pipe", good, path=tmp_path)) as index:
        state = index.state()
        assert state.entries == 1
        assert "pipe is not a file" in state.problem
        good.rename(tmp_path / "elsewhere")
        assert index.extend(PATIENCE)
        assert "x.jsonl is missing now" in index.state().problem
        with pytest.raises(StorageError, match=r"x\.jsonl"):
            index.record(EntryId(1, 1))
        (tmp_path / "elsewhere").rename(good)
        assert index.extend(PATIENCE)
        assert "no longer there" not in index.state().problem


def test_names_and_causes_are_counted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl",
        [
            rollout(0, verified={"score": 0.5, "long": "x" * 500, "judge": "strict"}),
            rollout(1, verified={"score": 0.7}),
            *(failure(task, detail=f"HTTP 503 from http://127.0.0.1:{task}/x") for task in (2, 3)),
            failure(4, detail="HTTP 429 from http://127.0.0.1:9/x"),
        ],
    )
    with indexed(source(path)) as index:
        assert rows(index, "SELECT * FROM tool") == [("get_weather", 1, 1), ("get_weather", 2, 1)]
        fields = dict(rows(index, "SELECT name, records FROM field"))
        assert (fields["score"], fields["judge"], "long" in fields) == (2, 1, False)
        causes = rows(
            index, "SELECT text, count(*) FROM entry JOIN cause ON cause.id = cause GROUP BY text"
        )
        assert causes == [("HTTP 429 from …", 1), ("HTTP 503 from …", 2)]


def test_a_mark_of_the_encoding_belongs_to_no_record(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [b"\xef\xbb\xbf", rollout(1), rollout(2)])
    with indexed(source(path)) as index:
        assert column(index, "status") == ["completed", "completed"]
        assert index.record(EntryId(0, 1)) + b"\n" == rollout(1)
        append(path, rollout(3))
        assert index.extend(PATIENCE)
        assert column(index, "task") == [1, 2, 3]
        assert index.state().read == path.stat().st_size
