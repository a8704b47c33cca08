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
from rollgym.viewer import open_source as open_source_module
from rollgym.viewer.errors import RequestError
from rollgym.viewer.formats.rows import ROLLOUTS
from rollgym.viewer.http.sources import describe_source
from rollgym.viewer.library import Library
from rollgym.viewer.open_source import LiveCheck, OpenSource, overview_cache_name
from rollgym.viewer.openers import look_again, open_sources
from rollgym.viewer.source import EntryId, FactsOf, SourcePart, ViewerSource
from rollgym.viewer.summary import RecordSummary
from tests.builders import make_run, record, write_journal
from tests.integration.viewer.rollouts import failure, rollout, write

PATIENCE = 30.0


@contextmanager
def open_library(*paths: Path) -> Iterator[Library]:
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


def entries(opened: OpenSource) -> int:
    return opened.totals()[0].entries


@contextmanager
def watched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """As the viewer has it, but quicker."""
    monkeypatch.setattr(library_module, "DISCOVERY_SECONDS", 0.0)
    monkeypatch.setattr(library_module, "POLL_SECONDS", 0.05)
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
    with open_library(path) as library:
        opened = library.source("x")
        wait_until(lambda: entries(opened) == 4)
        with path.open("ab") as file:
            file.write(rollout(4))
        write(path.with_name("x_failures.jsonl"), [failure(5)])
        wait_until(lambda: entries(opened) == 6)
        state, totals = opened.totals()
        assert state.ready
        assert (totals.coverage.completed, totals.coverage.failed) == (5, 1)


def test_the_first_question_is_answered_from_the_first_lines(path: Path) -> None:
    with open_library(path) as library, library.source("x").reading() as connection:
        assert connection.execute("SELECT count(*) FROM entry").fetchone() == (4,)


def test_a_source_that_is_requested_is_read_before_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def read_on(opened: OpenSource) -> bool:
        order.append(opened.source.id)
        return False

    monkeypatch.setattr(OpenSource, "read_on", read_on)
    for name in "abc":
        write(tmp_path / f"{name}.jsonl", [rollout()])
    library = Library(open_sources([tmp_path]))
    library.source("b").asked = time.monotonic()
    library.start()
    wait_until(lambda: len(order) >= 3)
    library.close()
    assert order[:3] == ["b", "a", "c"]


def test_how_many_there_are_to_be_is_known_from_the_manifest(path: Path) -> None:
    make_run(path.with_name("x.run"), 5, 2).close()
    write(path.with_name("x_shard-0-of-2.jsonl"), [rollout()])
    with open_library(path.parent) as library:
        wait_until(lambda: entries(library.source("x")) == 4)
        coverage = library.source("x").totals()[1].coverage
        assert (coverage.expected, coverage.unresolved) == (10, 6)
        # The manifest is that of all shards together.
        assert library.source("x_shard-0-of-2").expected() is None


def test_a_manifest_that_cannot_be_read_says_nothing(path: Path) -> None:
    run = path.with_name("x.run")
    run.mkdir()
    (run / "manifest.json").write_text("{")
    with open_library(path) as library:
        assert library.source("x").expected() is None


def test_the_overview_of_all_is_kept_with_the_index(path: Path) -> None:
    with open_library(path) as library:
        opened = library.source("x")
        wait_until(lambda: opened.totals()[0].ready)
        wait_until(lambda: opened.overview() == opened.index().kept(overview_cache_name(None)))
    with open_library(path) as library:
        kept = library.source("x").index().kept(overview_cache_name(None))
        assert kept is not None
        assert msgspec.json.decode(kept)["rollouts"] == 4
        with path.open("ab") as file:
            file.write(rollout(4))
        wait_until(lambda: msgspec.json.decode(library.source("x").overview())["rollouts"] == 5)


def test_the_overview_is_made_ready_before_anybody_asks_for_it(path: Path) -> None:
    os.utime(path, (1, 1))  # long finished
    with open_library(path) as library:
        index = library.source("x").index()
        wait_until(lambda: index.kept(overview_cache_name(None)) is not None)


def test_a_rollout_is_opened_once_as_long_as_its_file_is_the_same(path: Path) -> None:
    entry = EntryId(0, 2)
    with open_library(path) as library:
        opened = library.source("x")
        document = library.document(opened, entry)
        assert library.document(opened, entry) is document
        with path.open("ab") as file:
            file.write(rollout(4))
        wait_until(lambda: entries(opened) == 5)
        assert library.document(opened, entry) is document
        write(path.with_name("new"), [rollout(7), rollout(8)]).replace(path)
        wait_until(lambda: entries(opened) == 2)
        assert library.document(opened, entry).view().summary.task == 8


def test_rollouts_that_were_looked_at_are_forgotten_when_they_are_too_large(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_library(path) as library:
        opened = library.source("x")
        first, second = (EntryId(0, record) for record in (1, 2))
        size = library.document(opened, first).size
        monkeypatch.setattr(library_module, "DOCUMENT_BYTES", 2 * size - 1)
        one = library.document(opened, first)
        other = library.document(opened, second)
        assert library.document(opened, second) is other  # the last one stays, whatever its size
        assert library.document(opened, first) is not one


def test_a_rollout_that_is_not_there_is_not_found(path: Path) -> None:
    for entry in [EntryId(0, 5), EntryId(0, 99), EntryId(1, 1), EntryId(9, 1)]:
        with open_library(path) as library, pytest.raises(KeyError):
            library.document(library.source("x"), entry)


def test_a_source_that_is_not_open_is_not_found(path: Path) -> None:
    with open_library(path) as library, pytest.raises(RequestError, match="no source 'y'"):
        library.source("y")


def test_a_file_that_goes_away_is_reported_and_what_was_read_is_still_listed(path: Path) -> None:
    with open_library(path) as library:
        opened = library.source("x")
        wait_until(lambda: entries(opened) == 4)
        path.unlink()
        wait_until(lambda: "is missing now" in opened.totals()[0].problem)
        assert entries(opened) == 4
        with pytest.raises(StorageError, match="No such file"):
            opened.document(EntryId(0, 1))


def test_a_query_that_takes_too_long_is_broken_off(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_source_module, "QUERY_TIMEOUT", 0.2)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with open_library(path) as library:
        opened = library.source("x")
        with pytest.raises(RequestError, match="took longer"), opened.reading() as connection:
            connection.execute(endless).fetchone()
        with opened.reading() as connection:  # the connection is as good as before
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_job_that_takes_too_long_is_not_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_module, "QUERY_TIMEOUT", 0.1)
    done = threading.Event()

    async def wait() -> None:
        with open_library(path) as library:
            with pytest.raises(RequestError, match="took longer"):
                await library.work(lambda: done.wait(PATIENCE))
            done.set()

    asyncio.run(wait())


def test_closing_breaks_off_what_is_being_looked_up(path: Path) -> None:
    begun, ended = threading.Event(), threading.Event()
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"

    def look_up(opened: OpenSource) -> None:
        try:
            with opened.reading() as connection:
                begun.set()
                connection.execute(endless).fetchone()
        except RequestError:
            ended.set()

    with open_library(path) as library:
        threading.Thread(target=look_up, args=(library.source("x"),)).start()
        assert begun.wait(PATIENCE)
    assert ended.wait(PATIENCE)


def test_a_library_can_be_closed_before_it_was_started(path: Path) -> None:
    Library(open_sources([path])).close()


def live(path: Path) -> LiveCheck:
    [source] = open_sources([path])
    return LiveCheck(source)


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
        monkeypatch.setattr(open_source_module, "LOCK_SECONDS", 0.0)
        assert watched.is_live()


def test_a_monitor_that_is_kept_up_says_that_a_run_is_live(path: Path) -> None:
    for snapshot, expected in [
        ({"time": "now", "finished": False}, True),
        ({"time": "now", "finished": True}, False),
        ({"time": 1000.0, "finished": False}, False),
        ({"finished": 5}, False),
        ([], False),
        (None, False),
    ]:
        os.utime(path, (1, 1))
        monitor = path.with_name("monitor.json")
        if isinstance(snapshot, dict) and snapshot.get("time") == "now":
            snapshot["time"] = time.time()
        if snapshot is not None:
            monitor.write_bytes(msgspec.json.encode(snapshot))
        [source] = open_sources([path])
        watched: ViewerSource = msgspec.structs.replace(source, monitors=(monitor,))
        assert LiveCheck(watched).is_live() is expected


def age(folder: Path) -> None:
    for file in folder.iterdir():
        os.utime(file, (1, 1))


def test_a_collection_that_begins_later_appears(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(path.parent, monkeypatch) as library:
        (path.parent / "a").mkdir()
        write(path.parent / "a" / "x.jsonl", [rollout(0)])
        wait_until(lambda: list(library.sources) == ["x", "a-x"])
        wait_until(lambda: entries(library.source("a-x")) == 1)
        assert entries(library.source("x")) == 4, "the first keeps its id"
        folder = path.parent.name
        assert [opened.title for opened in library.sources.values()] == [
            f"{folder}/x.jsonl",
            "a/x.jsonl",
        ]


def test_a_run_that_begins_in_an_empty_folder_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(tmp_path, monkeypatch) as library:
        assert not library.sources
        make_run(tmp_path / "run").close()
        write_journal(tmp_path / "run" / "journal.jsonl", [record(0)])
        wait_until(lambda: list(library.sources) == ["run"])
        wait_until(lambda: entries(library.source("run")) == 1)


def test_a_shard_that_begins_later_is_read_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    make_run(run).close()
    (run / "journal.jsonl").unlink()
    write_journal(run / "journal-1-of-2.jsonl", [record(1)])
    with watched(tmp_path, monkeypatch) as library:
        opened = library.source("run")
        wait_until(lambda: entries(opened) == 1)
        write_journal(run / "journal-0-of-2.jsonl", [record(0), record(2)])
        wait_until(lambda: entries(opened) == 3)
        assert library.source("run") is opened
        with opened.reading() as connection:
            ids = [
                str(EntryId.of(number))
                for (number,) in connection.execute("SELECT id FROM entry ORDER BY id")
            ]
        assert ids == ["0-1", "0-2", "1-1"], "the first has the id that it had before"


def test_a_run_that_is_divided_later_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    make_run(run).close()
    write_journal(run / "journal.jsonl", [record(3)])
    with watched(tmp_path, monkeypatch) as library:
        wait_until(lambda: entries(library.source("run")) == 1)
        write_journal(run / "journal-0-of-2.jsonl", [record(0), record(2)])
        wait_until(lambda: entries(library.source("run")) == 3)


def test_sources_that_are_gone_stay_listed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(path.parent, monkeypatch) as library:
        wait_until(lambda: entries(library.source("x")) == 4)
        path.unlink()
        write(path.with_name("y.jsonl"), [rollout(0)])
        wait_until(lambda: list(library.sources) == ["x", "y"])


def test_a_rollout_is_opened_again_when_its_file_was_written_over(path: Path) -> None:
    write(path, [rollout(1, question="aaaa")])
    with open_library(path) as library:
        opened = library.source("x")
        wait_until(lambda: entries(opened) == 1)
        version = opened.totals()[0].version
        assert library.document(opened, EntryId(0, 1)).view().title == "aaaa"
        write(path, [rollout(1, question="bbbb")])
        wait_until(lambda: entries(opened) == 1 and opened.totals()[0].version > version)
        assert library.document(opened, EntryId(0, 1)).view().title == "bbbb"


def test_a_run_that_is_made_again_has_another_number_of_rollouts(path: Path) -> None:
    run = path.with_name("x.run")
    make_run(run, 5, 2).close()
    with open_library(path) as library:
        opened = library.source("x")
        wait_until(lambda: entries(opened) == 4)
        assert msgspec.json.decode(opened.overview())["coverage"]["expected"] == 10
        shutil.rmtree(run)
        assert opened.expected() is None
        make_run(run, 3, 2).close()
        assert opened.totals()[1].coverage.expected == 6
        assert msgspec.json.decode(opened.overview())["coverage"]["expected"] == 6


class Unforeseen:
    """A plug-in's format with a mistake in it."""

    name = "unforeseen"
    by_lines = True
    places = ROLLOUTS.places
    document = ROLLOUTS.document

    def __init__(self) -> None:
        self.is_mended = False

    def summary(self, record: bytes, facts_of: FactsOf) -> RecordSummary:
        if b'"reward":0' in record and not self.is_mended:
            raise KeyError("unforeseen")
        return ROLLOUTS.summary(record, facts_of)


def test_a_format_that_fails_ends_neither_its_own_reading_nor_that_of_others(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_source_module, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(library_module, "POLL_SECONDS", 0.05)
    other = write(path.with_name("y.jsonl"), [rollout(0), rollout(1, reward=0.0), rollout(2)])
    format_ = Unforeseen()
    broken = ViewerSource(
        id="y", title="y", kind="test", path=other, parts=(SourcePart(other, format_),)
    )
    library = Library([broken, *open_sources([path])])
    library.start()
    try:
        wait_until(lambda: "unforeseen" in describe_source(library.source("y")).state.problem)
        wait_until(lambda: entries(library.source("x")) == 4)
        format_.is_mended = True
        wait_until(lambda: describe_source(library.source("y")).state.entries == 3)
    finally:
        library.close()


def test_a_source_that_is_closed_is_not_opened_again(path: Path) -> None:
    with open_library(path) as library:
        opened = library.source("x")
        wait_until(lambda: entries(opened) == 4)
    with pytest.raises(StorageError, match="being closed"):
        opened.index()
    assert not list(path.parent.glob(".*.lock"))


def test_a_source_whose_index_is_gone_is_reported_of_all_the_same(path: Path) -> None:
    (source,) = open_sources([path])
    opened = OpenSource(source)
    opened.index()
    for index in path.parent.glob(".*rollgym-index*"):
        index.unlink()
    try:
        assert "unable to open" in describe_source(opened).state.problem
    finally:
        opened.close()


def test_a_monitor_that_says_nothing_does_not_end_the_reading(path: Path) -> None:
    for content in [b"[" * 100_000, b"{", b"\xff", b"null"]:
        monitor = path.with_name("monitor.json")
        monitor.write_bytes(content)
        os.utime(path, (1, 1))  # long finished: only the monitor could say otherwise
        (source,) = open_sources([path])
        opened = OpenSource(msgspec.structs.replace(source, monitors=(monitor,)))
        try:
            while opened.read_on():
                pass
            assert entries(opened) == 4
        finally:
            opened.close()
