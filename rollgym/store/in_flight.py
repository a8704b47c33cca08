"""Which rollouts were running when a process froze or died.

The code of a rollout may block the event loop for ever or kill the process. Nothing is recorded of
such an attempt, so the next process would try it again, and so on.

*Marks.* Beside the journal, a small file has a line of fixed length for each attempt in flight. The
line is set before the attempt starts and cleared when it ended, without a sync: a file survives the
process that wrote it, and a power failure is not caused by a rollout. Attempts end and start
together, so the lines that changed are written with one call. The file is removed at the end of the
collection.

*Causes.* Marks alone prove nothing, because most processes that die were killed by a person or a
scheduler. They count only together with a cause: the watchdog noted that the event loop was
blocked, `faulthandler` wrote the report of a fatal signal, or the kernel counted processes that it
killed for lack of memory.
"""

import contextlib
import faulthandler
import os
from pathlib import Path
from typing import BinaryIO

import msgspec

from rollgym.records import RolloutKey

_LINE = b"%20d %10d\n"
_SIZE = 32
_FREE = b" " * (_SIZE - 1) + b"\n"
_OOM_HEADER = b"%31d\n"
"""In the place of the first slot."""
_CAUSE_LIMIT = 600
_OOM_COUNTERS = (Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat"))


class EarlierDeath(msgspec.Struct, frozen=True):
    """An earlier process that froze or died, and the rollouts that may have caused it."""

    rollouts: frozenset[RolloutKey]
    cause: str

    @property
    def culprit(self) -> RolloutKey | None:
        """The rollout that caused it, where only one can have."""
        (rollout, *others) = self.rollouts
        return None if others else rollout


class _BlockedNote(msgspec.Struct):
    """The note about a blocked event loop."""

    rollouts: list[tuple[int, int]]
    where: str


class InFlightMarks:
    """The marks of one collection. Every method tolerates a broken disk: marks are only hints."""

    def __init__(self, journal: Path) -> None:
        self._marks = journal.with_name(f".{journal.stem}.in-flight")
        self._crash = journal.with_name(f".{journal.stem}.crash")
        self._note = journal.with_name(f".{journal.stem}.blocked")
        self.earlier = self._read_earlier()
        self._free: list[int] = []
        self._lines = bytearray(_FREE)
        self._changed: set[int] = set()
        self._descriptor: int | None = None
        self._crash_file: BinaryIO | None = None
        self._blocked = False
        with contextlib.suppress(OSError):
            self._open()

    def enter(self, task: int, repeat: int) -> int:
        """An attempt starts after the next `write`. Returns its slot."""
        slot = self._free.pop() if self._free else len(self._lines) // _SIZE
        self._set(slot, _LINE % (task, repeat))
        return slot

    def leave(self, slot: int) -> None:
        """The attempt in this slot has ended, or is ignored from now on."""
        if slot:
            self._set(slot, _FREE)
            self._free.append(slot)

    def write(self) -> None:
        """Write the lines that changed, and those between them."""
        if self._changed and self._descriptor is not None:
            start, end = min(self._changed) * _SIZE, (max(self._changed) + 1) * _SIZE
            try:  # `contextlib.suppress` would cost as much as the write
                os.pwrite(self._descriptor, memoryview(self._lines)[start:end], start)
            except OSError:
                return
            self._changed.clear()

    def note_blocked(self, rollouts: list[RolloutKey], where: str) -> None:
        """The event loop is blocked by one of these. Called in the thread of the watchdog."""
        self._blocked = True
        note = msgspec.json.encode(
            _BlockedNote([(key.task, key.repeat) for key in rollouts], where)
        )
        with contextlib.suppress(OSError):
            self._note.write_bytes(note)

    def note_responding(self) -> None:
        """The event loop is no longer blocked."""
        self._blocked = False
        self._note.unlink(missing_ok=True)

    def close(self) -> None:
        """End the collection. The note about a loop that was blocked to the end stays."""
        if self._crash_file is not None:
            faulthandler.disable()
            self._crash_file.close()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        with contextlib.suppress(OSError):
            self._marks.unlink(missing_ok=True)
            self._crash.unlink(missing_ok=True)
            if not self._blocked:
                self._note.unlink(missing_ok=True)

    def _open(self) -> None:
        self._note.unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
        self._descriptor = os.open(self._marks, flags, 0o644)
        self._set(0, _OOM_HEADER % _killed_for_memory())
        self.write()
        if not faulthandler.is_enabled():  # its user wants the report elsewhere
            self._crash_file = self._crash.open("wb")
            faulthandler.enable(self._crash_file, all_threads=False)

    def _set(self, slot: int, line: bytes) -> None:
        self._lines[slot * _SIZE : (slot + 1) * _SIZE] = line
        self._changed.add(slot)

    def _read_earlier(self) -> EarlierDeath | None:
        """What the files of an earlier process say; None where it ended as it should."""
        with contextlib.suppress(OSError, ValueError, msgspec.DecodeError):
            if self._note.exists():
                note = msgspec.json.decode(self._note.read_bytes(), type=_BlockedNote)
                blocked = frozenset(RolloutKey(task, repeat) for task, repeat in note.rollouts)
                cause = f"the event loop was blocked until the process ended, here: {note.where}"
                return EarlierDeath(blocked, cause) if blocked else None
            if not self._marks.exists():
                return None
            header, *lines = self._marks.read_bytes().replace(b"\0", b" ").splitlines()
            marked = frozenset(
                RolloutKey(*map(int, line.split())) for line in lines if line.split()
            )
            cause = self._cause(int(header))
            return EarlierDeath(marked, cause) if cause and marked else None
        return None

    def _cause(self, killed_before: int) -> str:
        crash = self._crash.read_text("utf-8", "replace") if self._crash.exists() else ""
        if crash:
            return f"the process died: {' '.join(crash[:_CAUSE_LIMIT].split())}"
        if _killed_for_memory() > killed_before:
            return "the system killed the process for lack of memory"
        return ""


def _killed_for_memory() -> int:
    """How many processes the kernel has killed for lack of memory, in this group or since boot."""
    for path in _OOM_COUNTERS:
        with contextlib.suppress(OSError, ValueError):
            for line in path.read_text().splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
    return 0
