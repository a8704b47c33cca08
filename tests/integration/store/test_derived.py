"""Files that are made from a journal, and reconciled with it after any damage."""

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollgym.store import DerivedFile, DiskFullError, StorageError, write_derived
from rollgym.store.disk import Disk

T = TypeVar("T")
LINES = [b'{"n":%d}\n' % number for number in range(5)]
WHOLE = b"".join(LINES)


class FailingDisk(Disk):
    """Writes so many bytes and is full then; or fails at what it is told to fail at."""

    def __init__(self, room: int = 1 << 30, fails_at: str = "") -> None:
        super().__init__()
        self.room = room
        self.fails_at = fails_at

    def write(self, descriptor: int, data: bytes) -> int:
        taken = super().write(descriptor, data[: self.room])
        self.room -= taken
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return taken

    def sync(self, descriptor: int) -> None:
        self._perhaps("sync")
        super().sync(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        self._perhaps("replace")
        super().replace(source, target)

    def _perhaps(self, call: str) -> None:
        if call == self.fails_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some" / "folder" / "out.jsonl"


def reconcile(path: Path, lines: list[bytes] = LINES, disk: Disk | None = None) -> None:
    with DerivedFile(path, disk) as file:
        file.reconcile(lambda: iter(lines))
        assert file.is_intact()


def test_folders_are_made_and_lines_appended_for_all_to_see(path: Path) -> None:
    with DerivedFile(path) as file:
        file.append(LINES[0])
        assert path.read_bytes() == LINES[0]
        file.append(LINES[1] + LINES[2])
        assert path.read_bytes() == b"".join(LINES[:3])
        file.sync()


def test_what_is_there_is_kept_as_far_as_it_is_right(path: Path) -> None:
    reconcile(path, LINES[:3])
    inode = path.stat().st_ino
    with path.open("ab") as file:
        file.write(b'{"n":3')
    reconcile(path)
    assert path.read_bytes() == WHOLE
    assert path.stat().st_ino == inode
    reconcile(path, LINES[:2])
    assert path.read_bytes() == b"".join(LINES[:2])
    assert path.stat().st_ino == inode


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    keep=st.integers(0, len(WHOLE)),
    damage=st.binary(max_size=12) | st.sampled_from([*LINES, b"\n", b"\x00" * 4]),
    tail=st.integers(0, len(WHOLE)),
)
def test_after_any_damage_it_is_what_it_should_be(
    path: Path, keep: int, damage: bytes, tail: int
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(WHOLE[:keep] + damage + WHOLE[tail:])
    reconcile(path)
    assert path.read_bytes() == WHOLE
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_file_that_is_taken_away_meanwhile_is_noticed_and_made_again(path: Path) -> None:
    with DerivedFile(path) as file:
        file.append(LINES[0])
        assert file.is_intact()
        path.unlink()
        file.append(LINES[1])
        assert not file.is_intact()
        file.reconcile(lambda: LINES)
        assert file.is_intact()
        file.append(LINES[0])
    assert path.read_bytes() == WHOLE + LINES[0]


def test_a_file_that_others_change_is_noticed(path: Path) -> None:
    reconcile(path)
    with DerivedFile(path) as file:
        with path.open("ab") as other:
            other.write(b"x")
        assert not file.is_intact()
        os.truncate(path, 3)
        assert not file.is_intact()
        path.rename(path.with_name("elsewhere"))
        path.write_bytes(WHOLE)
        assert not file.is_intact()


def test_a_link_stays_a_link_to_the_file_that_is_written(path: Path) -> None:
    target = path.with_name("target.jsonl")
    path.parent.mkdir(parents=True)
    target.write_bytes(b"wrong\n")
    path.symlink_to(target.name)
    reconcile(path)
    assert path.is_symlink()
    assert target.read_bytes() == WHOLE


def test_a_draft_that_a_killed_process_left_is_taken_over(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.with_name(f".{path.name}.tmp").write_bytes(b"half of somethi")
    reconcile(path)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


# When the disk, or the source of the lines, fails.


def test_a_full_disk_is_an_error_and_the_next_time_reconciles_it(path: Path) -> None:
    with DerivedFile(path, FailingDisk(room=10)) as file, pytest.raises(DiskFullError):
        file.append(WHOLE)
    assert path.read_bytes() == WHOLE[:10]
    reconcile(path)
    assert path.read_bytes() == WHOLE


def test_the_old_file_stays_until_the_new_one_is_synced(path: Path) -> None:
    path.parent.mkdir(parents=True)
    for call in ("sync", "replace"):
        path.write_bytes(b"old\n")
        with pytest.raises(StorageError, match="Input/output error"):
            reconcile(path, disk=FailingDisk(fails_at=call))
        assert path.read_bytes() == b"old\n"
        assert [each.name for each in path.parent.iterdir()] == [path.name]


class CrashError(Exception):
    """The process is gone."""


class CrashingDisk(Disk):
    """Ends everything at the n-th call, before or after it has done its work."""

    def __init__(self, calls: int, *, after: bool) -> None:
        super().__init__()
        self.calls = calls
        self.after = after

    def write(self, descriptor: int, data: bytes) -> int:
        return self._at(lambda: super(CrashingDisk, self).write(descriptor, data))

    def truncate(self, descriptor: int, size: int) -> None:
        self._at(lambda: super(CrashingDisk, self).truncate(descriptor, size))

    def sync(self, descriptor: int) -> None:
        self._at(lambda: super(CrashingDisk, self).sync(descriptor))

    def replace(self, source: Path, target: Path) -> None:
        self._at(lambda: super(CrashingDisk, self).replace(source, target))

    def _at(self, work: Callable[[], T]) -> T:
        self.calls -= 1
        if self.calls == 0 and not self.after:
            raise CrashError
        done = work()
        if self.calls == 0:
            raise CrashError
        return done


def test_a_file_is_reconciled_after_a_crash_at_any_call(path: Path) -> None:
    path.parent.mkdir(parents=True)
    contents = [b"", WHOLE[:20], WHOLE[:12] + b"{torn", b"wrong\n", WHOLE + LINES[0]]
    for before, after in itertools.product(contents, (False, True)):
        crashes = 0
        for call in range(1, 10):
            path.write_bytes(before)
            try:
                reconcile(path, disk=CrashingDisk(call, after=after))
            except CrashError:
                crashes += 1
            found = path.read_bytes()
            assert found == before or WHOLE.startswith(found)
            reconcile(path)
            assert path.read_bytes() == WHOLE
        assert 0 < crashes < 9


def test_lines_that_cannot_be_made_leave_the_old_file(path: Path) -> None:
    def lines() -> Iterator[bytes]:
        yield LINES[0]
        raise KeyError("no such task")

    path.parent.mkdir(parents=True)
    path.write_bytes(b"old\n")
    with DerivedFile(path) as file, pytest.raises(KeyError):
        file.reconcile(lines)
    with pytest.raises(KeyError):
        write_derived(path, lines())
    assert path.read_bytes() == b"old\n"
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_file_where_a_folder_should_be_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for attempt in (DerivedFile, lambda path: write_derived(path, [b""])):
        with pytest.raises(StorageError, match=f"{tmp_path}/file/out.jsonl: "):
            attempt(tmp_path / "file" / "out.jsonl")


def test_a_closed_file_takes_nothing(path: Path) -> None:
    file = DerivedFile(path)
    file.close()
    file.close()
    with pytest.raises(StorageError, match="is closed"):
        file.append(b"x\n")


# Small files.


def test_a_small_file_is_written_whole_or_not_at_all(path: Path) -> None:
    seen = []

    def parts() -> Iterator[bytes]:
        seen.append(path.exists())
        yield b"[1,"
        seen.append(path.exists())
        yield b"2]\n"

    write_derived(path, parts())
    assert path.read_bytes() == b"[1,2]\n"
    assert seen == [False, False]
    write_derived(path, [b"no line end"])
    assert path.read_bytes() == b"no line end"
