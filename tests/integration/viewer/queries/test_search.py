import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollgym.store.errors import StorageError
from rollgym.viewer.formats.rows import JOURNAL, ROLLOUTS
from rollgym.viewer.index.source_index import SourceIndex
from rollgym.viewer.queries import scan as scanning
from rollgym.viewer.queries.filter import Filter
from rollgym.viewer.queries.listing import Orders, listing
from rollgym.viewer.queries.overview import overview
from rollgym.viewer.queries.scan import TextScan
from rollgym.viewer.queries.search import SearchResult, SourceSearches
from rollgym.viewer.queries.tasks import tasks
from rollgym.viewer.source import EntryId, RecordRange, SourcePart, ViewerSource

PATIENCE = 30.0


def line(content: str, *, task: int = 0, ascii_only: bool = False) -> bytes:
    row = {"_ng_task_index": task, "reward": 1.0, "output": [{"content": content}]}
    return json.dumps(row, ensure_ascii=ascii_only).encode() + b"\n"


def opened(*parts: SourcePart, inputs: Path | None = None) -> SourceIndex:
    path = parts[0].path
    index = SourceIndex(
        ViewerSource(id="s", title="s", kind="rollouts", path=path, parts=parts, inputs=inputs)
    )
    index.open()
    assert index.extend(PATIENCE)
    return index


def finished(searches: SourceSearches, text: str, index: SourceIndex) -> SearchResult:
    deadline = time.monotonic() + PATIENCE
    while not (found := searches.find(text, index)).search.done:
        assert time.monotonic() < deadline
    return found


def records(found: SearchResult) -> list[str]:
    return [str(EntryId.of(number)) for number in sorted(found.entries)]


@pytest.fixture
def searches() -> Iterator[SourceSearches]:
    made = SourceSearches()
    yield made
    made.close()


@pytest.fixture
def rollouts(tmp_path: Path) -> Path:
    path = tmp_path / "rollouts.jsonl"
    path.write_bytes(
        line("The Answer is größer")
        + line("the answer: größer", ascii_only=True, task=1)
        + b"\n"
        + line('say "answer\nme"', task=2)
        + line("something else", task=3)
    )
    return path


def test_a_text_is_found_in_the_records(searches: SourceSearches, rollouts: Path) -> None:
    for text, found in [
        ("ANSWER", ["0-1", "0-2", "0-4"]),
        ("größer", ["0-1", "0-2"]),
        ("GRÖßER", ["0-1", "0-2"]),
        ('"answer\nme"', ["0-4"]),
        ("answer is", ["0-1"]),
        ("nowhere", []),
    ]:
        index = opened(SourcePart(rollouts, ROLLOUTS))
        answer = finished(searches, text, index)
        assert records(answer) == found
        assert answer.search.matches == len(found)
        assert answer.search.read == answer.search.size == rollouts.stat().st_size
        index.close()


def test_every_query_can_be_restricted_to_what_was_found(
    searches: SourceSearches, rollouts: Path
) -> None:
    index = opened(SourcePart(rollouts, ROLLOUTS))
    found = finished(searches, "größer", index)
    wanted = Filter().among(found.entries)
    with index.reading() as connection:
        shown = listing(connection, wanted, Orders(), found.search)
        assert [entry.id for entry in shown.entries] == ["0-1", "0-2"]
        assert shown.search == found.search
        assert overview(connection, wanted, None).rollouts == 2
        assert tasks(connection, Filter(sort="task").among(found.entries)).total == 2
    index.close()


def test_the_title_of_a_task_is_found_though_its_records_lack_it(
    searches: SourceSearches, tmp_path: Path
) -> None:
    inputs = tmp_path / "inputs.jsonl"
    inputs.write_bytes(
        b"".join(
            json.dumps({"_ng_task_index": task, "question": question}).encode() + b"\n"
            for task, question in enumerate(
                ("Sort 100% of these", "Add one_and two", "Addiere Äpfel in oneXand two")
            )
        )
    )
    journal = tmp_path / "journal.jsonl"
    attempt = {"v": 1, "repeat": 0, "repeats": 1, "attempt": 1, "final": True, "seed": 1}
    journal.write_bytes(
        b"".join(
            json.dumps(
                attempt
                | {"task": task, "started": 1.0, "seconds": 1.0}
                | {"outcome": {"status": "completed", "reward": 1.0, "result": {}}}
            ).encode()
            + b"\n"
            for task in range(3)
        )
    )
    index = opened(SourcePart(journal, JOURNAL), inputs=inputs)
    assert records(finished(searches, "SORT 100%", index)) == ["0-1"]
    assert records(finished(searches, "one_and", index)) == ["0-2"]
    assert records(finished(searches, "äpfel", index)) == ["0-3"]
    assert records(finished(searches, "öpfel", index)) == []
    index.close()


def test_a_search_goes_on_when_the_file_grows(searches: SourceSearches, rollouts: Path) -> None:
    index = opened(SourcePart(rollouts, ROLLOUTS))
    assert finished(searches, "answer", index).search.matches == 3
    with rollouts.open("ab") as file:
        file.write(line("another answer") + line("nothing"))
    assert index.extend(PATIENCE)
    assert records(finished(searches, "answer", index))[-1] == "0-6"
    index.close()


def test_a_search_begins_again_when_the_file_was_replaced(
    searches: SourceSearches, rollouts: Path
) -> None:
    index = opened(SourcePart(rollouts, ROLLOUTS))
    assert finished(searches, "answer", index).search.matches == 3
    rollouts.unlink()
    rollouts.write_bytes(line("no") + line("the answer of another file, longer than before"))
    deadline = time.monotonic() + PATIENCE
    while not index.extend(1.0) or index.state().entries != 2:
        assert time.monotonic() < deadline
    assert records(finished(searches, "answer", index)) == ["0-2"]
    index.close()


def test_a_search_begins_again_though_the_records_of_the_other_file_are_in_the_same_places(
    searches: SourceSearches, rollouts: Path
) -> None:
    rollouts.write_bytes(line("aaaa") + line("aaab"))
    index = opened(SourcePart(rollouts, ROLLOUTS))
    assert records(finished(searches, "aaaa", index)) == ["0-1"]
    version = index.state().version
    rollouts.write_bytes(line("bbbb") + line("aaaa"))
    deadline = time.monotonic() + PATIENCE
    while not index.extend(1.0) or index.state().version == version:
        assert time.monotonic() < deadline
    assert records(finished(searches, "aaaa", index)) == ["0-2"]
    index.close()


def matches(rollouts: Path, text: str) -> list[int]:
    """The records that a scan of the whole file finds."""
    index = opened(SourcePart(rollouts, ROLLOUTS))
    scan = TextScan(text)
    while scan.version < 0:
        scan.advance(index, time.monotonic())
    index.close()
    return list(scan.matches)


def test_an_escape_across_the_edge_of_a_block_is_not_a_match(
    rollouts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "BLOCK", 100)
    texts = ("x" * before + "\nothing" + "y" * 300 for before in range(100))
    rollouts.write_bytes(b"".join(map(line, texts)))
    assert matches(rollouts, "nothing") == []


def test_records_longer_than_a_block_are_searched_across_its_edges(
    rollouts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "BLOCK", 100)
    for needle in ("needle", "nädel"):
        texts = ("x" * before + needle + "y" * 300 for before in range(60, 140))
        rollouts.write_bytes(b"".join(map(line, texts)) + line("hay" * 100))
        assert matches(rollouts, needle.upper()) == list(range(1, 81))


class Archive:
    """Records that are not on lines: each starts with its length."""

    name = "archive"
    by_lines = False
    summary = ROLLOUTS.summary
    document = ROLLOUTS.document

    def places(self, path: Path) -> Iterator[RecordRange]:
        position, data = 0, path.read_bytes()
        while position < len(data):
            length = int.from_bytes(data[position : position + 4])
            yield RecordRange(position + 4, length)
            position += 4 + length


def test_archives_are_searched_too(searches: SourceSearches, rollouts: Path) -> None:
    archive = rollouts.with_name("archive.bin")
    content = [
        json.dumps({"reward": 1.0, "text": text}, ensure_ascii=False).encode()
        for text in ("größer", "no")
    ]
    archive.write_bytes(b"".join(len(each).to_bytes(4) + each for each in content))
    index = opened(SourcePart(rollouts, ROLLOUTS), SourcePart(archive, Archive()))
    assert records(finished(searches, "größer", index)) == ["0-1", "0-2", "1-1"]
    index.close()


def test_a_file_that_is_gone_is_reported(searches: SourceSearches, rollouts: Path) -> None:
    index = opened(SourcePart(rollouts, ROLLOUTS))
    rollouts.unlink()
    with pytest.raises(StorageError, match="searching it"):
        finished(searches, "answer", index)
    index.close()


def test_one_thread_reads_for_all_searches_and_ends_with_them(
    searches: SourceSearches, rollouts: Path
) -> None:
    index = opened(SourcePart(rollouts, ROLLOUTS))
    for number in range(20):
        searches.find(f"text {number}", index)
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("search in s") <= 1
    finished(searches, "answer", index)
    deadline = time.monotonic() + PATIENCE
    while any(thread.name == "search in s" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    index.close()


def test_a_search_that_is_not_requested_is_not_continued(
    rollouts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollgym.viewer.queries.search.ABANDONED_SECONDS", 0.0)
    index = opened(SourcePart(rollouts, ROLLOUTS))
    searches = SourceSearches()
    found = searches.find("answer", index)
    assert not found.search.done
    assert found.search.read == 0
    searches.close()
    index.close()
