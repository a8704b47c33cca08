"""Names and contents are synced in the order that a crash of the machine needs."""

import os
from pathlib import Path

import pytest

from rollgym.store import Disk, merge, merge_runs
from rollgym.store.blobs import BlobStore
from rollgym.store.journal import Journal
from tests.builders import make_run, record, write_journal

Place = tuple[int, int]


def place(path: Path) -> Place:
    """A file or directory, whatever its name is by now."""
    status = path.stat()
    return status.st_dev, status.st_ino


class NotingDisk(Disk):
    """The real disk, with what was synced and which names were given, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[Place | str] = []

    def sync(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self.notes.append((status.st_dev, status.st_ino))
        super().sync(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        super().replace(source, target)
        self.notes.append(target.name)


def test_the_name_of_a_new_journal_is_synced_before_its_records(tmp_path: Path) -> None:
    disk = NotingDisk()
    Journal(tmp_path / "journal.jsonl", disk).close()
    assert place(tmp_path) in disk.notes


def test_the_removal_of_a_torn_end_is_synced(tmp_path: Path) -> None:
    path, disk = tmp_path / "journal.jsonl", NotingDisk()
    path.write_bytes(b"torn")
    Journal(path, disk).close()
    assert disk.notes == [place(path), place(tmp_path)]


def test_the_inputs_are_synced_before_the_manifest(tmp_path: Path) -> None:
    disk = NotingDisk()
    make_run(tmp_path, disk=disk).close()
    notes = disk.notes
    kept, promised = notes.index("inputs.jsonl"), notes.index("manifest.json")
    assert place(tmp_path / "inputs.jsonl") in notes[:kept]
    assert place(tmp_path) in notes[kept:promised]
    assert place(tmp_path / "manifest.json") in notes[:promised]
    assert place(tmp_path) in notes[promised:]


def test_a_resumed_run_syncs_its_manifest_before_it_makes_a_journal(tmp_path: Path) -> None:
    """The process that made the run may have died in between."""
    make_run(tmp_path).close()
    journal = tmp_path / "journal.jsonl"
    journal.unlink()
    had_journal: list[bool] = []

    class ResumingDisk(Disk):
        def sync(self, descriptor: int) -> None:
            if os.path.samestat(os.fstat(descriptor), tmp_path.stat()):
                had_journal.append(journal.exists())

    make_run(tmp_path, disk=ResumingDisk()).close()
    assert had_journal == [False, True]


def test_a_resumed_run_syncs_the_journals_of_every_shard(tmp_path: Path) -> None:
    make_run(tmp_path).close()
    others = [tmp_path / f"journal-{number}-of-2.jsonl" for number in range(2)]
    for number, path in enumerate(others):
        write_journal(path, [record(number)])
    disk = NotingDisk()
    make_run(tmp_path, disk=disk).close()
    assert {place(path) for path in others} <= set(disk.notes)


def test_new_directories_are_synced_with_their_parents(tmp_path: Path) -> None:
    disk = NotingDisk()
    make_run(tmp_path / "a" / "b" / "run", disk=disk).close()
    above: list[Place | str] = [
        place(path) for path in (tmp_path, tmp_path / "a", tmp_path / "a" / "b")
    ]
    assert [note for note in disk.notes if note in above] == above


def test_the_new_name_of_an_old_run_is_synced(tmp_path: Path) -> None:
    make_run(tmp_path / "run").close()
    disk = NotingDisk()
    make_run(tmp_path / "run", force_new_run=True, disk=disk).close()
    aside, inputs = disk.notes.index("run.previous-1"), disk.notes.index("inputs.jsonl")
    assert disk.notes[aside + 1] == place(tmp_path)
    assert place(tmp_path) in disk.notes[aside + 2 : inputs]


def test_a_new_blob_and_its_name_are_synced(tmp_path: Path) -> None:
    disk = NotingDisk()
    store = BlobStore(tmp_path, disk)
    path = store.path(store.put_now(b"picture"))
    above = place(tmp_path.parent)  # for the name of a directory that was there
    assert disk.notes == [above, place(tmp_path), place(path), path.name, place(path.parent)]


def test_the_name_of_an_existing_blob_is_synced(tmp_path: Path) -> None:
    ref = BlobStore(tmp_path).put_now(b"picture")
    disk = NotingDisk()
    store = BlobStore(tmp_path, disk)
    assert store.put_now(b"picture") == ref
    assert disk.notes == [place(store.path(ref).parent)]


def test_a_merged_run_is_synced_before_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make_run(tmp_path / "run") as run:
        run.append(record(0))
        run.blobs.put_now(b"picture")
    target = tmp_path / "merged"
    before: set[Place] = set()
    after: set[Place] = set()

    class MergingDisk(Disk):
        def sync(self, descriptor: int) -> None:
            status = os.fstat(descriptor)
            (after if target.exists() else before).add((status.st_dev, status.st_ino))

    monkeypatch.setattr(merge, "Disk", MergingDisk)
    merge_runs([tmp_path / "run"], target)
    assert {place(path) for path in (target, *target.rglob("*"))} <= before
    assert place(tmp_path) in after
