"""Where an index is kept, and what happens when it is not valid."""

import os
import sqlite3
from pathlib import Path

import pytest

from rollgym.store import StorageError
from rollgym.viewer.formats.rows import JOURNAL
from rollgym.viewer.index import database
from rollgym.viewer.index.source_index import SourceIndex
from tests.builders import record, write_journal
from tests.integration.viewer.index.sources import (
    PATIENCE,
    column,
    indexed,
    opened,
    rows,
    run,
    source,
)
from tests.integration.viewer.rollouts import rollout, write

LONG_NAME = "x" * 245 + ".jsonl"
"""The name of an index beside it would be too long, for every user."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rollgym" / "viewer"


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_the_index_of_a_file_lies_beside_it_and_nothing_else_is_left(
    tmp_path: Path, cache: Path
) -> None:
    with indexed(source(write(tmp_path / "x.jsonl", [rollout()]))):
        pass
    assert hidden(tmp_path) == [".x.jsonl.rollgym-index"]
    assert not cache.exists()


def test_the_index_of_a_run_lies_in_its_folder_and_may_be_moved_with_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    write_journal(tmp_path / "a" / "journal.jsonl", [record()])
    with indexed(run(tmp_path / "a")) as index:
        before = index.state()
    assert hidden(tmp_path / "a") == [".a.rollgym-index"]
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "b" / ".a.rollgym-index").rename(tmp_path / "b" / ".b.rollgym-index")
    with opened(run(tmp_path / "b")) as index:
        assert index.state() == before


def test_where_the_folder_does_not_take_it_the_index_is_in_the_cache(
    tmp_path: Path, cache: Path
) -> None:
    path = write(tmp_path / LONG_NAME, [rollout()])
    with indexed(source(path)) as index:
        before = index.state()
    assert hidden(tmp_path) == []
    assert len(list(cache.glob("*/index.rollgym-index"))) == 1
    with opened(source(path)) as index:
        assert index.state() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write any folder")
def test_the_index_of_a_file_in_a_read_only_folder_is_in_the_cache(
    tmp_path: Path, cache: Path
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    path = write(folder / "x.jsonl", [rollout()])
    folder.chmod(0o500)
    try:
        with indexed(source(path)) as index:
            assert index.state().entries == 1
    finally:
        folder.chmod(0o700)
    assert hidden(folder) == []
    assert cache.exists()


def test_where_no_place_lasts_the_index_is_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(write(tmp_path / "no-folder", [])))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with indexed(source(write(tmp_path / LONG_NAME, [rollout()]))) as index:
        assert index.state().entries == 1
        assert len(list(tmp_path.glob("rollgym-viewer-*"))) == 1
    assert list(tmp_path.glob("rollgym-viewer-*")) == []


def test_without_any_place_the_reason_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(write(tmp_path / "no-folder", [])))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    index = SourceIndex(source(write(tmp_path / LONG_NAME, [rollout()])))
    with pytest.raises(StorageError, match="finding a location for its index"):
        index.open()


def test_an_index_that_cannot_be_used_is_made_again(tmp_path: Path) -> None:
    for number, damage in enumerate(["no database", "empty", "cut", "older", "no tables"]):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = write(folder / "x.jsonl", [rollout(task) for task in range(200)])
        with indexed(source(path)) as index:
            before = index.state()
        place = folder / ".x.jsonl.rollgym-index"
        match damage:
            case "no database":
                place.write_bytes(b"this is no database at all, however it is looked at" * 100)
            case "empty":
                place.write_bytes(b"")
            case "cut":
                os.truncate(place, place.stat().st_size // 2)
            case "older":
                with sqlite3.connect(place) as connection:
                    connection.execute("UPDATE about SET value = 'older' WHERE name = 'schema'")
                connection.close()
            case "no tables":
                place.unlink()
                sqlite3.connect(place).execute("CREATE TABLE other (x)").connection.close()
        with opened(source(path)) as index:
            assert index.extend(PATIENCE)
            assert column(index, "task") == list(range(200))
            assert index.state().version > before.version
        assert hidden(folder) == [place.name]


def test_damage_that_shows_later_is_mended(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(task) for task in range(2000)])
    with indexed(source(path)):
        pass
    place = tmp_path / ".x.jsonl.rollgym-index"
    whole = place.read_bytes()
    middle = 100 * 4096  # behind the pages that tell what the database is
    place.write_bytes(whole[:middle] + b"x" * (len(whole) - middle))
    with opened(source(path)) as index:
        with pytest.raises(StorageError, match="try again"):
            rows(index, "SELECT sum(length(fields)) FROM words")
        assert index.extend(PATIENCE)
        assert column(index, "task") == list(range(2000))


def test_an_index_of_other_parts_is_made_again(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout()])
    with indexed(source(path, kind=JOURNAL)) as index:
        assert column(index, "status") == ["unreadable"]
    with indexed(source(path)) as index:
        assert column(index, "status") == ["completed"]


def test_an_index_that_was_deleted_while_it_was_open_is_made_again(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout()])
    with indexed(source(path)) as index:
        (tmp_path / ".x.jsonl.rollgym-index").unlink()
        assert index.extend(PATIENCE)
        assert index.state().entries == 1


def test_a_full_disk_sends_the_index_elsewhere(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(task) for task in range(2000)])
    with opened(source(path)) as index:
        # The real limit of SQLite on a database's pages; the error is that of a full disk.
        index._storage.database.connection.execute("PRAGMA max_page_count = 40")
        assert index.extend(PATIENCE)
        assert index.state().entries == 2000
        assert index._storage.database.path.is_relative_to(cache)


def test_two_sources_of_one_folder_do_not_take_each_others_index(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "CREATION_TIMEOUT", 0.1)
    one = source(write(tmp_path / "1.jsonl", [rollout(1)]), path=tmp_path)
    two = source(write(tmp_path / "2.jsonl", [rollout(2)]), path=tmp_path)
    with indexed(one) as first, indexed(two) as second:
        assert column(first, "task") == [1]
        assert column(second, "task") == [2]
