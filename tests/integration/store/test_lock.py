"""File locks, where the file changes under them."""

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from rollgym.store import Disk, FileLock
from rollgym.store.layout import OPENING_LOCK
from tests.builders import make_run


def before_the_next_flock(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    real = fcntl.flock

    def flock(file: int | IO[bytes], operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        happens()
        real(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)


def test_the_lock_of_a_renamed_directory_is_not_mistaken_for_that_of_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    theirs, ours = FileLock(directory / "lock"), FileLock(directory / "lock")

    def replace_the_directory() -> None:
        directory.rename(tmp_path / "run.previous-1")
        directory.mkdir()
        assert theirs.try_acquire()

    before_the_next_flock(monkeypatch, replace_the_directory)
    assert not ours.try_acquire()
    theirs.release()
    assert ours.try_acquire()
    ours.release()


def test_a_lock_whose_directory_vanishes_meanwhile_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    lock = FileLock(directory / "lock")

    def rename_the_directory() -> None:
        directory.rename(tmp_path / "aside")

    before_the_next_flock(monkeypatch, rename_the_directory)
    assert not lock.try_acquire()


def test_asking_whether_a_lock_is_held_does_not_take_it(tmp_path: Path) -> None:
    lock, other = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert not lock.is_held()
    assert not lock.path.exists()
    assert lock.try_acquire()
    assert other.is_held()
    lock.release()
    assert not other.is_held()
    assert lock.try_acquire()
    lock.release()


@pytest.mark.parametrize("force_new_run", [False, True])
def test_a_run_is_made_under_the_opening_lock_of_its_own_directory(
    tmp_path: Path, force_new_run: bool
) -> None:
    """Also where the old directory, with the lock in it, was put aside just before."""
    held: dict[str, bool] = {}

    class AskingDisk(Disk):
        def replace(self, source: Path, target: Path) -> None:
            held[target.name] = FileLock(tmp_path / "run" / OPENING_LOCK).is_held()
            super().replace(source, target)

    if force_new_run:
        make_run(tmp_path / "run").close()
    make_run(tmp_path / "run", force_new_run=force_new_run, disk=AskingDisk()).close()
    assert held.pop("run.previous-1", None) is (True if force_new_run else None)
    assert held == {"inputs.jsonl": True, "manifest.json": True}
