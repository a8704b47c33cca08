"""The journal on a real file system, and on one that fails."""

import asyncio
import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollgym.monitor import recount
from rollgym.records import Completed, encode_attempt
from rollgym.store import (
    CorruptJournalError,
    Disk,
    DiskFullError,
    RecordLookup,
    RecordVersionError,
    StorageError,
    StorageVanishedError,
    merge_runs,
    read_journal,
    read_records,
)
from rollgym.store import disk as disk_module
from rollgym.store import journal as journal_module
from rollgym.store.journal import Journal
from tests.builders import make_run, read_json_lines, record, write_journal

LINES = [encode_attempt(record(task)) for task in range(5)]


class CountingDisk(Disk):
    """The real disk, with a list of what was asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def write(self, descriptor: int, data: bytes) -> int:
        self.calls.append("write")
        return super().write(descriptor, data)

    async def sync_in_background(self, descriptor: int) -> None:
        self.calls.append("sync")
        await super().sync_in_background(descriptor)


class FullDisk(Disk):
    """Takes so many bytes and then says what a full disk says."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, descriptor: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = super().write(descriptor, data[: self.room])
        self.room -= taken
        return taken


class UnsyncableDisk(Disk):
    """A device that fails when it must really write."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    async def sync_in_background(self, descriptor: int) -> None:
        raise OSError(self._number, os.strerror(self._number))


class HangingDisk(Disk):
    """A device that never answers."""

    async def sync_in_background(self, descriptor: int) -> None:
        await asyncio.sleep(3600)


def test_each_record_is_one_write_call_and_readable_at_once(tmp_path: Path) -> None:
    disk = CountingDisk()
    journal = Journal(tmp_path / "journal.jsonl", disk)
    for line in LINES:
        offset = journal.append(line)
        assert (tmp_path / "journal.jsonl").read_bytes()[offset:] == line
    assert disk.calls == ["write"] * len(LINES)
    journal.close()
    assert (tmp_path / "journal.jsonl").read_bytes() == b"".join(LINES)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, sum(map(len, LINES))), garbage=st.sampled_from([b"", b"\0" * 100]))
def test_a_journal_cut_at_any_byte_keeps_every_whole_record(
    tmp_path: Path, cut: int, garbage: bytes
) -> None:
    path = tmp_path / "journal.jsonl"
    content = b"".join(LINES)[:cut] + garbage
    path.write_bytes(content)
    whole = content[: content.rfind(b"\n") + 1]

    journal = Journal(path, Disk())
    torn = journal.torn
    journal.append(LINES[0])
    journal.close()

    assert path.read_bytes() == whole + LINES[0]
    if len(whole) == len(content):
        assert torn is None
    else:
        assert torn is not None
        assert (torn.offset, torn.size) == (len(whole), len(content) - len(whole))
        assert str(path) in str(torn)
        assert f"{torn.size} bytes" in str(torn)


def test_a_corrupt_line_in_the_middle_is_an_error_with_file_and_line(tmp_path: Path) -> None:
    cases: list[bytes] = [b'{"v":1,"task"\n', b"\n", b'{"v":1}\n', b"\0\0\0\n", b"[]\n"]
    for number, bad in enumerate(cases):
        directory = tmp_path / str(number)
        directory.mkdir()
        make_run(directory).close()
        path = directory / "journal.jsonl"
        content = LINES[0] + LINES[1] + bad + LINES[2]
        path.write_bytes(content)
        with pytest.raises(
            CorruptJournalError, match=r"journal\.jsonl:3: this line is not a valid record"
        ):
            make_run(directory)
        assert path.read_bytes() == content


def test_a_corrupt_journal_stays_unchanged_and_leaves_the_run_unlocked(tmp_path: Path) -> None:
    make_run(tmp_path).close()
    content = b"nonsense\n" + LINES[0] + b'{"v":1,"ta'
    (tmp_path / "journal.jsonl").write_bytes(content)
    with pytest.raises(CorruptJournalError):
        make_run(tmp_path)
    assert (tmp_path / "journal.jsonl").read_bytes() == content
    (tmp_path / "journal.jsonl").write_bytes(LINES[0])
    make_run(tmp_path).close()


def test_a_record_of_a_later_version_asks_for_an_upgrade_and_nothing_else(tmp_path: Path) -> None:
    make_run(tmp_path).close()
    (tmp_path / "journal.jsonl").write_bytes(LINES[0] + LINES[1].replace(b'"v":1', b'"v":2'))
    with pytest.raises(RecordVersionError, match=r"jsonl:2: .* upgrade rollgym") as refused:
        make_run(tmp_path)
    assert "delete" not in str(refused.value)


def test_a_full_disk_leaves_whole_records_and_takes_no_more(tmp_path: Path) -> None:
    cases: list[int] = [0, 1, len(LINES[0]) - 1, len(LINES[0]), len(LINES[0]) + 3]
    for number, room in enumerate(cases):
        directory = tmp_path / str(number)
        directory.mkdir()
        path = directory / "journal.jsonl"
        journal = Journal(path, FullDisk(room))
        whole = room // len(LINES[0])
        for line in LINES[:whole]:
            journal.append(line)
        with pytest.raises(
            DiskFullError, match="No space left on device while writing a record: free"
        ):
            journal.append(LINES[whole])
        assert path.read_bytes() == b"".join(LINES[:whole])
        with pytest.raises(DiskFullError):
            journal.append(LINES[0])
        journal.close()


def test_after_a_failed_sync_nothing_is_acknowledged_any_more(tmp_path: Path) -> None:
    cases: list[int] = [errno.EIO, errno.ETIMEDOUT]
    for number, number in enumerate(cases):
        directory = tmp_path / str(number)
        directory.mkdir()
        journal = Journal(directory / "journal.jsonl", UnsyncableDisk(number))
        journal.append(LINES[0])
        for _ in range(2):
            with pytest.raises(StorageError, match=f"{os.strerror(number)} while syncing"):
                asyncio.run(journal.sync())
        with pytest.raises(StorageError):
            journal.append(LINES[1])
        journal.close()


def test_a_disk_that_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "SYNC_TIMEOUT", 0.05)
    monkeypatch.setattr(disk_module, "EXTRA_WAIT", 0.05)
    journal = Journal(tmp_path / "journal.jsonl", HangingDisk())
    journal.append(LINES[0])
    with pytest.raises(StorageError, match="did not finish a sync within"):
        asyncio.run(journal.sync())
    with pytest.raises(StorageError):
        journal.append(LINES[1])
    journal.close()


def test_a_loop_that_was_held_up_does_not_blame_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "SYNC_TIMEOUT", 0.05)

    async def main() -> int:
        journal = Journal(tmp_path / "journal.jsonl", Disk())
        journal.append(LINES[0])
        asyncio.get_running_loop().call_soon(time.sleep, 0.2)
        count = await journal.sync()
        journal.close()
        return count

    assert asyncio.run(main()) == 1


def test_a_file_that_is_deleted_or_replaced_is_noticed_before_records_are_acknowledged(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    journal = Journal(directory / "journal.jsonl", Disk())
    shutil.rmtree(directory)
    journal.append(LINES[0])
    with pytest.raises(StorageVanishedError, match="moved or deleted"):
        asyncio.run(journal.sync())
    journal.close()
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, Disk())
    path.rename(tmp_path / "elsewhere")
    path.touch()
    journal.append(LINES[0])
    with pytest.raises(StorageVanishedError, match="the file was replaced"):
        asyncio.run(journal.sync())
    journal.close()


FILE_SIZE_LIMIT = """
import resource, sys
from pathlib import Path
from rollgym.store import Disk, DiskFullError
from rollgym.store import disk as disk_module
from rollgym.store import journal as journal_module
from rollgym.store.journal import Journal
from tests.builders import encode_attempt, record

resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
journal = Journal(Path(sys.argv[1]), Disk())
try:
    for task in range(1000):
        journal.append(encode_attempt(record(task)))
except DiskFullError as error:
    print(journal.appended, error)
"""


def test_when_the_kernel_itself_takes_no_more_bytes_whole_records_remain(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", FILE_SIZE_LIMIT, path],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    appended, message = done.stdout.split(" ", 1)
    assert "File too large while writing a record" in message
    assert len(read_json_lines(path)) == int(appended) > 10


def test_a_torn_end_of_any_length_costs_no_whole_record(tmp_path: Path) -> None:
    """A record with its result may be longer than the blocks in which the end is looked for."""
    cases: list[int] = [(1 << 16) - 1, 1 << 16, (1 << 16) + 1, 200_000]
    for number, size in enumerate(cases):
        directory = tmp_path / str(number)
        directory.mkdir()
        path = directory / "journal.jsonl"
        path.write_bytes(b"".join(LINES) + b"x" * size)
        journal = Journal(path, Disk())
        journal.close()
        assert journal.torn is not None
        assert journal.torn.size == size
        assert path.read_bytes() == b"".join(LINES)


def test_a_reader_gives_whole_lines_up_to_a_byte(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join(LINES) + LINES[2][:-5])
    assert [entry.line for entry in read_journal(path)] == LINES
    end = len(LINES[0]) + len(LINES[1])
    for bound, count in ((end - 1, 1), (end, 2), (end + 1, 2), (0, 0)):
        assert [entry.line for entry in read_journal(path, bound)] == LINES[:count]


def test_records_written_while_a_journal_is_read_are_left_out(
    tmp_path: Path,
) -> None:
    """Otherwise a second outcome, written after outcomes were compared, would count too."""
    path = tmp_path / "journal.jsonl"
    write_journal(path, [record(0), record(1)])
    reading = read_records([path])
    first, current = next(reading)
    with path.open("ab") as file:
        file.write(encode_attempt(record(0, attempt=2)))
    rest = list(reading)
    assert current
    assert [entry.attempt.task for entry, _ in rest] == [1]
    assert first.attempt.attempt == 1


def test_every_reader_names_the_line_of_an_edited_reward(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with make_run(run) as store:
        offsets = [store.append(record(task, outcome=Completed(0.25))).offset for task in range(3)]
    path = run / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"reward":0.25', b'"reward":1.00')
    path.write_bytes(b"".join(lines))
    with RecordLookup() as lookup:
        readers: list[Callable[[], object]] = [
            lambda: make_run(run),
            lambda: merge_runs([run], tmp_path / "merged"),
            lambda: list(read_records([path])),
            lambda: lookup.record(path, offsets[1]),
            lambda: recount(run),
        ]
        for read in readers:
            with pytest.raises(CorruptJournalError, match=r"journal.jsonl:2: .*was changed after"):
                read()
    assert path.read_bytes() == b"".join(lines)
