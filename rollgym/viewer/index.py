"""Where each line of a file stands, and the little of it that lists are made from.

The file is read once, line by line. Of each line an offset and four numbers stay in memory, 34
bytes, whatever its transcript weighs; the line itself is read again when it is looked at. A large
file is read in portions, so that a page can show what is known so far. When the file has grown only
the new lines are read; when it was replaced or cut, everything is.

A last line without a line break may still be in the writing. It counts once it is a whole JSON
object, which no beginning of one is, and it is read again each time.
"""

import os
from array import array
from enum import IntEnum
from math import isnan, nan
from pathlib import Path
from stat import S_ISREG
from time import monotonic
from typing import Annotated, BinaryIO, NamedTuple, TypeVar

import msgspec

from rollgym.records import Completed, Row, RowError
from rollgym.rollouts.fields import REWARD, ROLLOUT_INDEX, SUCCESS, TASK_INDEX
from rollgym.store.errors import StorageError, storage_error

LONGEST_LINE = 64 << 20
UNKNOWN = -1
_BLOCK = 1 << 20
_Index = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_T = TypeVar("_T")


class LineKind(IntEnum):
    """What a line was taken for."""

    BLANK = 0
    ROW = 1
    BAD = 2


class Head(msgspec.Struct, frozen=True):
    """The numbers of a rollout, each None where its row has no usable one."""

    task: _Index | None = msgspec.field(name=TASK_INDEX, default=None)
    repeat: _Index | None = msgspec.field(name=ROLLOUT_INDEX, default=None)
    reward: float | None = msgspec.field(name=REWARD, default=None)
    success: bool | None = msgspec.field(name=SUCCESS, default=None)


class Columns(NamedTuple):
    """One entry for each line: line 1 is at 0. `UNKNOWN`, of rewards NaN, stands for None."""

    offsets: "array[int]"
    kinds: "array[int]"
    tasks: "array[int]"
    repeats: "array[int]"
    rewards: "array[float]"
    successes: "array[int]"

    @classmethod
    def empty(cls) -> "Columns":
        return cls(array("Q"), array("b"), array("q"), array("q"), array("d"), array("b"))

    def append(self, offset: int, kind: LineKind, head: Head) -> None:
        self.offsets.append(offset)
        self.kinds.append(kind)
        self.tasks.append(UNKNOWN if head.task is None else head.task)
        self.repeats.append(UNKNOWN if head.repeat is None else head.repeat)
        self.rewards.append(nan if head.reward is None else head.reward)
        success = head.success
        if head.reward is not None:
            success = Completed(head.reward, success).succeeded
        self.successes.append(UNKNOWN if success is None else success)


_HEAD = msgspec.json.Decoder(Head)
_NOTHING = Head()


class RolloutIndex:
    """The lines of one file, as far as it has been read. For one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns = Columns.empty()
        self.size = 0
        self.read = 0
        """How many of the file's bytes are behind us."""
        self._file: BinaryIO | None = None
        self._tail: int | None = None
        """Where the last line begins, if it has no line break yet."""

    def __len__(self) -> int:
        return len(self.columns.offsets)

    def extend(self, seconds: float) -> bool:
        """Read on for about so long; whether the end was reached. Raises StorageError."""
        deadline = monotonic() + seconds
        try:
            file = self._look()
            file.seek(0, os.SEEK_END)  # forgets what was buffered: a torn end may be another now
            file.seek(self.read)
            while self.read < self.size:
                if monotonic() >= deadline:
                    return False
                if not self._read_line(file):
                    break
        except OSError as error:
            raise storage_error(error, self.path, "reading the rollouts") from error
        return True

    def head(self, number: int) -> Head:
        """The numbers of a line that is known."""
        _, _, task, repeat, reward, success = (column[number - 1] for column in self.columns)
        return Head(
            None if task == UNKNOWN else int(task),
            None if repeat == UNKNOWN else int(repeat),
            None if isnan(reward) else reward,
            None if success == UNKNOWN else bool(success),
        )

    def line(self, number: int) -> bytes:
        """The bytes of a line that is known, as many as may be held. Raises StorageError."""
        if self._file is None:
            raise StorageError(f"{self.path}: read before it was opened")
        try:
            self._file.seek(self.columns.offsets[number - 1])
            return self._file.readline(LONGEST_LINE)
        except OSError as error:
            raise storage_error(error, self.path, "reading a rollout") from error

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _look(self) -> BinaryIO:
        """The file that is now at the path, with what we know of it made true."""
        found = self.path.stat()
        if not S_ISREG(found.st_mode):
            raise StorageError(f"{self.path} is no file: name one with rollouts, a *.jsonl")
        if self._file is not None:
            known = os.fstat(self._file.fileno())
            if not os.path.samestat(known, found) or found.st_size < self.read:
                self.close()
        if self._file is None:
            self._file = self.path.open("rb", buffering=_BLOCK)
            self.columns, self.read, self._tail = Columns.empty(), 0, None
        elif self._tail is not None:
            for column in self.columns:
                column.pop()
            self.read, self._tail = self._tail, None
        self.size = found.st_size
        return self._file

    def _read_line(self, file: BinaryIO) -> bool:
        """Take in the next line; False for one that is not finished."""
        begin, line = self.read, file.readline(LONGEST_LINE)
        end = begin + len(line)
        finished = line.endswith(b"\n")
        if not finished and len(line) == LONGEST_LINE:
            kind, head = LineKind.BAD, _NOTHING
            while not finished and (rest := file.readline(_BLOCK)):
                end, finished = end + len(rest), rest.endswith(b"\n")
        else:
            kind, head = _taken_for(line)
            if not finished and kind is not LineKind.ROW:
                return False
        self.columns.append(begin, kind, head)
        self.read, self._tail = end, None if finished else begin
        return True


def _taken_for(line: bytes) -> tuple[LineKind, Head]:
    if not line or line.isspace():
        return LineKind.BLANK, _NOTHING
    try:
        return LineKind.ROW, _HEAD.decode(line)
    except msgspec.ValidationError:
        return _taken_apart(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return LineKind.BAD, _NOTHING


def _taken_apart(line: bytes) -> tuple[LineKind, Head]:
    """A row with a number of an unusable type still has its others."""
    try:
        row = Row.parse(line)
    except (RowError, RecursionError):
        return LineKind.BAD, _NOTHING
    return LineKind.ROW, Head(
        _usable(row, TASK_INDEX, _Index),
        _usable(row, ROLLOUT_INDEX, _Index),
        _usable(row, REWARD, float),
        _usable(row, SUCCESS, bool),
    )


def _usable(row: Row, name: str, as_type: type[_T]) -> _T | None:
    try:
        return row.get(name, as_type)
    except RowError:
        return None
