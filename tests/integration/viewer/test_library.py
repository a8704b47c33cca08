import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from rollgym.store import StorageError
from rollgym.viewer import library as library_module
from rollgym.viewer import liveness
from rollgym.viewer import shelf as shelf_module
from rollgym.viewer.errors import PageError
from rollgym.viewer.formats import ROLLOUTS
from rollgym.viewer.http.sources import described
from rollgym.viewer.index import EntryId
from rollgym.viewer.library import Library
from rollgym.viewer.liveness import Liveness
from rollgym.viewer.openers import look_again, open_sources
from rollgym.viewer.shelf import Shelf, overview_name
from rollgym.viewer.source import FactsOf, Part, Source
from rollgym.viewer.summary import Summary
from tests.builders import make_run, record, write_journal
from tests.integration.viewer.rollouts import failure, rollout, write

PATIENCE = 30.0


@contextmanager
def opened(*paths: Path) -> Iterator[Library]:
    library = Library(open_sources(paths))
    library.start()
    try:
        yield library
    finally:
        library.close()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.02)


def entries(shelf: Shelf) -> int:
    return shelf.totals()[0].entries


@contextmanager
def watched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """As the viewer has it, but quicker."""
    monkeypatch.setattr(library_module, "FINDING_SECONDS", 0.0)
    monkeypatch.setattr(library_module, "LOOKING_SECONDS", 0.05)
    library = Library(open_sources([folder]), partial(look_again, [folder]))
    library.start()
    try:
        yield library
    finally:
        library.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "x.jsonl", [rollout(task) for task in range(4)])


def test_what_is_in_the_files_is_read_without_being_asked_for(path: Path) -> None:
    with opened(path) as library:
        shelf = library.shelf("x")
        wait_until(lambda: entries(shelf) == 4)
        with path.open("ab") as file:
            file.write(rollout(4))
        write(path.with_name("x_failures.jsonl"), [failure(5)])
        wait_until(lambda: entries(shelf) == 6)
        state, totals = shelf.totals()
        assert state.ready
        assert (totals.coverage.completed, totals.coverage.failed) == (5, 1)


def test_the_first_question_is_answered_from_the_first_lines(path: Path) -> None:
    with opened(path) as library, library.shelf("x").reading() as connection:
        assert connection.execute("SELECT count(*) FROM entry").fetchone() == (4,)


def test_a_source_that_somebody_asks_for_is_read_before_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def read_on(shelf: Shelf) -> bool:
        order.append(shelf.source.id)
        return False

    monkeypatch.setattr(Shelf, "read_on", read_on)
    for name in "abc":
        write(tmp_path / f"{name}.jsonl", [rollout()])
    library = Library(open_sources([tmp_path]))
    library.shelf("b").asked = time.monotonic()
    library.start()
    wait_until(lambda: len(order) >= 3)
    library.close()
    assert order[:3] == ["b", "a", "c"]


def test_how_many_there_are_to_be_is_known_from_the_manifest(path: Path) -> None:
    make_run(path.with_name("x.run"), 5, 2).close()
    write(path.with_name("x_shard-0-of-2.jsonl"), [rollout()])
    with opened(path.parent) as library:
        wait_until(lambda: entries(library.shelf("x")) == 4)
        coverage = library.shelf("x").totals()[1].coverage
        assert (coverage.expected, coverage.unresolved) == (10, 6)
        # The manifest is that of all shards together.
        assert library.shelf("x_shard-0-of-2").expected() is None


def test_a_manifest_that_cannot_be_read_says_nothing(path: Path) -> None:
    run = path.with_name("x.run")
    run.mkdir()
    (run / "manifest.json").write_text("{")
    with opened(path) as library:
        assert library.shelf("x").expected() is None


def test_the_overview_of_all_is_kept_with_the_index(path: Path) -> None:
    with opened(path) as library:
        shelf = library.shelf("x")
        wait_until(lambda: shelf.totals()[0].ready)
        wait_until(lambda: shelf.overview() == shelf.index().kept(overview_name(None)))
    with opened(path) as library:
        kept = library.shelf("x").index().kept(overview_name(None))
        assert kept is not None
        assert msgspec.json.decode(kept)["rollouts"] == 4
        with path.open("ab") as file:
            file.write(rollout(4))
        wait_until(lambda: msgspec.json.decode(library.shelf("x").overview())["rollouts"] == 5)


def test_the_overview_is_made_ready_before_anybody_asks_for_it(path: Path) -> None:
    os.utime(path, (1, 1))  # long finished
    with opened(path) as library:
        index = library.shelf("x").index()
        wait_until(lambda: index.kept(overview_name(None)) is not None)


def test_a_rollout_is_opened_once_as_long_as_its_file_is_the_same(path: Path) -> None:
    entry = EntryId(0, 2)
    with opened(path) as library:
        shelf = library.shelf("x")
        document = library.document(shelf, entry)
        assert library.document(shelf, entry) is document
        with path.open("ab") as file:
            file.write(rollout(4))
        wait_until(lambda: entries(shelf) == 5)
        assert library.document(shelf, entry) is document
        write(path.with_name("new"), [rollout(7), rollout(8)]).replace(path)
        wait_until(lambda: entries(shelf) == 2)
        assert library.document(shelf, entry).view().summary.task == 8


def test_rollouts_that_were_looked_at_are_forgotten_when_they_are_too_large(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path) as library:
        shelf = library.shelf("x")
        first, second = (EntryId(0, record) for record in (1, 2))
        size = library.document(shelf, first).size
        monkeypatch.setattr(library_module, "DOCUMENT_BYTES", 2 * size - 1)
        one = library.document(shelf, first)
        other = library.document(shelf, second)
        assert library.document(shelf, second) is other  # the last one stays, whatever its size
        assert library.document(shelf, first) is not one


@pytest.mark.parametrize("entry", [EntryId(0, 5), EntryId(0, 99), EntryId(1, 1), EntryId(9, 1)])
def test_a_rollout_that_is_not_there_is_not_found(path: Path, entry: EntryId) -> None:
    with opened(path) as library, pytest.raises(KeyError):
        library.document(library.shelf("x"), entry)


def test_a_source_that_is_not_open_is_not_found(path: Path) -> None:
    with opened(path) as library, pytest.raises(PageError, match="no source 'y'"):
        library.shelf("y")


def test_a_file_that_goes_away_is_told_and_what_was_read_is_still_listed(path: Path) -> None:
    with opened(path) as library:
        shelf = library.shelf("x")
        wait_until(lambda: entries(shelf) == 4)
        path.unlink()
        wait_until(lambda: "no longer there" in shelf.totals()[0].problem)
        assert entries(shelf) == 4
        with pytest.raises(StorageError, match="No such file"):
            shelf.document(EntryId(0, 1))


def test_a_query_that_takes_too_long_is_broken_off(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf_module, "PAGE_PATIENCE", 0.2)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with opened(path) as library:
        shelf = library.shelf("x")
        with pytest.raises(PageError, match="took longer"), shelf.reading() as connection:
            connection.execute(endless).fetchone()
        with shelf.reading() as connection:  # the connection is as good as before
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_job_that_takes_too_long_is_not_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_module, "PAGE_PATIENCE", 0.1)
    done = threading.Event()

    async def wait() -> None:
        with opened(path) as library:
            with pytest.raises(PageError, match="took longer"):
                await library.work(lambda: done.wait(PATIENCE))
            done.set()

    asyncio.run(wait())


def test_closing_breaks_off_what_is_being_looked_up(path: Path) -> None:
    begun, ended = threading.Event(), threading.Event()
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"

    def look_up(shelf: Shelf) -> None:
        try:
            with shelf.reading() as connection:
                begun.set()
                connection.execute(endless).fetchone()
        except PageError:
            ended.set()

    with opened(path) as library:
        threading.Thread(target=look_up, args=(library.shelf("x"),)).start()
        assert begun.wait(PATIENCE)
    assert ended.wait(PATIENCE)


def test_a_library_can_be_closed_before_it_was_started(path: Path) -> None:
    Library(open_sources([path])).close()


def live(path: Path) -> Liveness:
    [source] = open_sources([path])
    return Liveness(source)


def test_a_file_that_was_written_a_moment_ago_is_live(path: Path) -> None:
    assert live(path).is_live()
    os.utime(path, (1, 1))
    watched = live(path)
    assert not watched.is_live()
    with path.open("ab") as file:
        file.write(rollout(4))
    os.utime(path, (1, 1))  # whatever the clock of the disk says
    assert watched.is_live()


def test_a_run_whose_lock_is_held_is_live(tmp_path: Path) -> None:
    with make_run(tmp_path / "run"):
        age(tmp_path / "run")
        assert live(tmp_path / "run").is_live()
    age(tmp_path / "run")
    assert not live(tmp_path / "run").is_live()


def test_a_lock_is_not_tried_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "run").close()
    age(tmp_path / "run")
    watched = live(tmp_path / "run")
    assert not watched.is_live()
    with make_run(tmp_path / "run"):
        age(tmp_path / "run")
        assert not watched.is_live()
        monkeypatch.setattr(liveness, "LOCK_SECONDS", 0.0)
        assert watched.is_live()


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        ({"time": "now", "finished": False}, True),
        ({"time": "now", "finished": True}, False),
        ({"time": 1000.0, "finished": False}, False),
        ({"finished": 5}, False),
        ([], False),
        (None, False),
    ],
    ids=["running", "finished", "old", "wrong", "list", "none"],
)
def test_a_monitor_that_is_kept_up_says_that_a_run_is_live(
    path: Path, snapshot: object, expected: bool
) -> None:
    os.utime(path, (1, 1))
    monitor = path.with_name("monitor.json")
    if isinstance(snapshot, dict) and snapshot.get("time") == "now":
        snapshot["time"] = time.time()
    if snapshot is not None:
        monitor.write_bytes(msgspec.json.encode(snapshot))
    [source] = open_sources([path])
    watched: Source = msgspec.structs.replace(source, monitors=(monitor,))
    assert Liveness(watched).is_live() is expected


def age(folder: Path) -> None:
    for file in folder.iterdir():
        os.utime(file, (1, 1))


def test_a_collection_that_begins_later_appears(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(path.parent, monkeypatch) as library:
        (path.parent / "a").mkdir()
        write(path.parent / "a" / "x.jsonl", [rollout(0)])
        wait_until(lambda: list(library.shelves) == ["x", "a-x"])
        wait_until(lambda: entries(library.shelf("a-x")) == 1)
        assert entries(library.shelf("x")) == 4, "the first keeps its id"
        folder = path.parent.name
        assert [shelf.title for shelf in library.shelves.values()] == [
            f"{folder}/x.jsonl",
            "a/x.jsonl",
        ]


def test_a_run_that_begins_in_an_empty_folder_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(tmp_path, monkeypatch) as library:
        assert not library.shelves
        make_run(tmp_path / "run").close()
        write_journal(tmp_path / "run" / "journal.jsonl", [record(0)])
        wait_until(lambda: list(library.shelves) == ["run"])
        wait_until(lambda: entries(library.shelf("run")) == 1)


def test_a_shard_that_begins_later_is_read_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    make_run(run).close()
    (run / "journal.jsonl").unlink()
    write_journal(run / "journal-1-of-2.jsonl", [record(1)])
    with watched(tmp_path, monkeypatch) as library:
        shelf = library.shelf("run")
        wait_until(lambda: entries(shelf) == 1)
        write_journal(run / "journal-0-of-2.jsonl", [record(0), record(2)])
        wait_until(lambda: entries(shelf) == 3)
        assert library.shelf("run") is shelf
        with shelf.reading() as connection:
            ids = [
                str(EntryId.of(number))
                for (number,) in connection.execute("SELECT id FROM entry ORDER BY id")
            ]
        assert ids == ["0-1", "0-2", "1-1"], "the first has the id that it had before"


def test_a_run_that_is_divided_later_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    make_run(run).close()
    write_journal(run / "journal.jsonl", [record(3)])
    with watched(tmp_path, monkeypatch) as library:
        wait_until(lambda: entries(library.shelf("run")) == 1)
        write_journal(run / "journal-0-of-2.jsonl", [record(0), record(2)])
        wait_until(lambda: entries(library.shelf("run")) == 3)


def test_sources_that_are_gone_stay_listed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(path.parent, monkeypatch) as library:
        wait_until(lambda: entries(library.shelf("x")) == 4)
        path.unlink()
        write(path.with_name("y.jsonl"), [rollout(0)])
        wait_until(lambda: list(library.shelves) == ["x", "y"])


def test_a_rollout_is_opened_anew_when_its_file_was_written_over(path: Path) -> None:
    write(path, [rollout(1, question="aaaa")])
    with opened(path) as library:
        shelf = library.shelf("x")
        wait_until(lambda: entries(shelf) == 1)
        version = shelf.totals()[0].version
        assert library.document(shelf, EntryId(0, 1)).view().title == "aaaa"
        write(path, [rollout(1, question="bbbb")])
        wait_until(lambda: entries(shelf) == 1 and shelf.totals()[0].version > version)
        assert library.document(shelf, EntryId(0, 1)).view().title == "bbbb"


def test_a_run_that_is_made_again_has_another_number_of_rollouts(path: Path) -> None:
    run = path.with_name("x.run")
    make_run(run, 5, 2).close()
    with opened(path) as library:
        shelf = library.shelf("x")
        wait_until(lambda: entries(shelf) == 4)
        assert msgspec.json.decode(shelf.overview())["coverage"]["expected"] == 10
        shutil.rmtree(run)
        assert shelf.expected() is None
        make_run(run, 3, 2).close()
        assert shelf.totals()[1].coverage.expected == 6
        assert msgspec.json.decode(shelf.overview())["coverage"]["expected"] == 6


class Unforeseen:
    """A plug-in's format with a mistake in it."""

    name = "unforeseen"
    by_lines = True
    places = ROLLOUTS.places
    document = ROLLOUTS.document

    def __init__(self) -> None:
        self.is_mended = False

    def summary(self, record: bytes, facts_of: FactsOf) -> Summary:
        if b'"reward":0' in record and not self.is_mended:
            raise KeyError("unforeseen")
        return ROLLOUTS.summary(record, facts_of)


def test_a_format_that_fails_ends_neither_its_own_reading_nor_that_of_others(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf_module, "AGAIN_SECONDS", 0.1)
    monkeypatch.setattr(library_module, "LOOKING_SECONDS", 0.05)
    other = write(path.with_name("y.jsonl"), [rollout(0), rollout(1, reward=0.0), rollout(2)])
    format_ = Unforeseen()
    broken = Source(id="y", title="y", kind="test", path=other, parts=(Part(other, format_),))
    library = Library([broken, *open_sources([path])])
    library.start()
    try:
        wait_until(lambda: "unforeseen" in described(library.shelf("y")).state.problem)
        wait_until(lambda: entries(library.shelf("x")) == 4)
        format_.is_mended = True
        wait_until(lambda: described(library.shelf("y")).state.entries == 3)
    finally:
        library.close()


def test_a_source_that_is_closed_is_not_opened_again(path: Path) -> None:
    with opened(path) as library:
        shelf = library.shelf("x")
        wait_until(lambda: entries(shelf) == 4)
    with pytest.raises(StorageError, match="being closed"):
        shelf.index()
    assert not list(path.parent.glob(".*.lock"))


def test_a_source_whose_index_is_gone_is_told_of_all_the_same(path: Path) -> None:
    (source,) = open_sources([path])
    shelf = Shelf(source)
    shelf.index()
    for index in path.parent.glob(".*rollgym-index*"):
        index.unlink()
    try:
        assert "unable to open" in described(shelf).state.problem
    finally:
        shelf.close()


@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b"{", b"\xff", b"null"],
    ids=["deep", "torn", "bytes", "null"],
)
def test_a_monitor_that_says_nothing_does_not_end_the_reading(path: Path, content: bytes) -> None:
    monitor = path.with_name("monitor.json")
    monitor.write_bytes(content)
    os.utime(path, (1, 1))  # long finished: only the monitor could say otherwise
    (source,) = open_sources([path])
    shelf = Shelf(msgspec.structs.replace(source, monitors=(monitor,)))
    try:
        while shelf.read_on():
            pass
        assert entries(shelf) == 4
    finally:
        shelf.close()
