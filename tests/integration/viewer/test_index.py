import os
from pathlib import Path

import pytest

from rollgym.store import StorageError, StorageVanishedError
from rollgym.viewer import index as module
from rollgym.viewer.index import Head, LineKind, RolloutIndex
from tests.integration.viewer.rollouts import rollout, write

PATIENCE = 60.0


def kinds(index: RolloutIndex) -> list[int]:
    assert index.extend(PATIENCE)
    return list(index.columns.kinds)


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def test_every_line_can_be_had_again_with_its_numbers(tmp_path: Path) -> None:
    lines = [rollout(task, repeat, reward=repeat) for task in range(3) for repeat in range(2)]
    index = RolloutIndex(write(tmp_path / "x.jsonl", lines))
    assert kinds(index) == [LineKind.ROW] * 6
    assert [index.line(number) for number in range(1, 7)] == lines
    assert index.head(4) == Head(1, 1, 1.0, True)
    assert index.head(5) == Head(2, 0, 0.0, False)
    index.close()


def test_a_line_that_is_no_row_is_known_as_such_and_keeps_its_number(tmp_path: Path) -> None:
    odd = [
        b"\n",
        b"{\n",
        b"[1]\n",
        b"\xff\n",
        b'{"a":' + b"[" * 10_000 + b"\n",
        b'{"reward":"a",\n',
    ]
    index = RolloutIndex(write(tmp_path / "x.jsonl", [*odd, rollout(7)]))
    assert kinds(index) == [LineKind.BLANK, *[LineKind.BAD] * 5, LineKind.ROW]
    assert index.head(7).task == 7
    index.close()


def test_a_number_of_an_odd_type_is_unknown_and_the_others_are_not(tmp_path: Path) -> None:
    line = b'{"_ng_task_index":-4,"_ng_rollout_index":2,"reward":1e999,"success":true}\n'
    index = RolloutIndex(write(tmp_path / "x.jsonl", [line]))
    assert kinds(index) == [LineKind.ROW]
    assert index.head(1) == Head(None, 2, None, True)
    index.close()


def test_a_growing_file_is_read_on_and_an_unfinished_line_waited_for(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(0)])
    index = RolloutIndex(path)
    assert len(kinds(index)) == 1
    append(path, rollout(1)[:30])
    assert len(kinds(index)) == 1
    append(path, rollout(1)[30:-1])
    assert len(kinds(index)) == 2  # whole, though without a line break
    append(path, b"\n" + rollout(2))
    assert len(kinds(index)) == 3
    assert [index.head(number).task for number in (1, 2, 3)] == [0, 1, 2]
    index.close()


def test_a_torn_line_that_another_one_took_the_place_of_leaves_no_trace(tmp_path: Path) -> None:
    whole, torn = rollout(0), rollout(1, question="this one is never finished")[:200]
    path = write(tmp_path / "x.jsonl", [whole, torn])
    index = RolloutIndex(path)
    assert len(kinds(index)) == 1
    assert index.line(1) == whole
    os.truncate(path, len(whole))
    append(path, rollout(2, question="something else"))
    assert kinds(index) == [LineKind.ROW] * 2
    assert index.line(2) == rollout(2, question="something else")
    index.close()


def test_a_file_that_was_replaced_or_cut_is_read_anew(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(0), rollout(1)])
    index = RolloutIndex(path)
    assert len(kinds(index)) == 2
    write(tmp_path / "new", [rollout(5), rollout(6), rollout(7)]).replace(path)
    assert len(kinds(index)) == 3
    assert index.head(1).task == 5
    os.truncate(path, len(rollout(5)))
    assert len(kinds(index)) == 1
    index.close()


def test_a_large_file_is_read_in_portions(tmp_path: Path) -> None:
    index = RolloutIndex(write(tmp_path / "x.jsonl", [rollout()]))
    assert not index.extend(0.0)
    assert len(index) == 0
    assert kinds(index) == [LineKind.ROW]
    index.close()


def test_a_line_too_long_to_be_held_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 3000)
    path = write(tmp_path / "x.jsonl", [rollout(question="x" * 5000), rollout(1)])
    index = RolloutIndex(path)
    assert kinds(index) == [LineKind.BAD, LineKind.ROW]
    assert len(index.line(1)) == 3000
    assert index.line(2) == rollout(1)
    index.close()


def test_what_is_not_there_or_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageVanishedError, match="x.jsonl: No such file"):
        RolloutIndex(tmp_path / "x.jsonl").extend(PATIENCE)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(StorageError, match="is no file"):
            RolloutIndex(path).extend(PATIENCE)
