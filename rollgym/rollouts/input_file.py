"""A JSONL file of the user, the checks of its rows, and a map in a few bytes for each of them.

The file is read more than once and must not change in between.
"""

import os
import stat
from array import array
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from rollgym.records import Row, RowError
from rollgym.records.decoding import JsonDecoder
from rollgym.rollouts.rows import PARAMS, TASK_INDEX, extra_body
from rollgym.store import InputsError
from rollgym.store.errors import storage_error
from rollgym.suggestions import advice, nearest

LARGEST_INDEX = 2**63 - 1
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OBJECT = JsonDecoder(dict[str, Any])
_EMPTY = 0
_INITIAL_SIZE = 1024


class InputLine(NamedTuple):
    """A line that is not blank: its number from 1, its offset in bytes, and its content."""

    number: int
    offset: int
    content: bytes


class InputFile:
    """A file whose every opening gives the same content, or an error."""

    def __init__(self, path: Path) -> None:
        """Raises InputsError for a path that is not a file, StorageError."""
        self.path = path
        try:
            self._fingerprint = _fingerprint(path.stat())
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputsError(f"there is no file {path}{_similar_name(path)}") from error
        except OSError as error:
            raise storage_error(error, path, "looking for the input") from error
        if not path.is_file():
            what = "a directory" if path.is_dir() else "a pipe or a device"
            raise InputsError(
                f"the input {path} is {what}, not a file; it is read more than once, so it must "
                "be a file on disk"
            )

    def open(self) -> BinaryIO:
        """Raises InputsError when the file was changed, OSError."""
        file = self.path.open("rb")
        if _fingerprint(os.fstat(file.fileno())) != self._fingerprint:
            file.close()
            raise self.changed()
        return file

    def changed(self) -> InputsError:
        return InputsError(f"{self.path} was changed while it was read: run the command again")


def lines_of(file: BinaryIO) -> Iterator[InputLine]:
    """Every line that is not blank, without the byte order mark that some programs write."""
    offset = 0
    for number, line in enumerate(file, start=1):
        mark = len(_BYTE_ORDER_MARK) if offset == 0 and line.startswith(_BYTE_ORDER_MARK) else 0
        content = line[mark:]
        if content and not content.isspace():
            yield InputLine(number, offset + mark, content)
        offset += len(line)


def row_at(file: BinaryIO, offset: int) -> Row:
    """The row that begins at this offset. Raises RowError."""
    file.seek(offset)
    return Row.parse(file.readline())


def params_problems(row: Row, *, seeded: bool = False) -> list[str]:
    """What is wrong with the parameters of an input row; `seeded` ones get a sampling seed."""
    raw = row.fields.get(PARAMS)
    if raw is None:
        return [f"{PARAMS} is missing"]
    try:
        params = _OBJECT.decode(raw)
    except msgspec.DecodeError as error:
        is_object = bytes(raw).startswith(b"{")
        return [f"{PARAMS} cannot be read: {error}" if is_object else f"{PARAMS} must be an object"]
    problems = []
    if "input" not in params:
        problems.append(f"{PARAMS}.input is missing")
    elif not isinstance(params["input"], (str, list)):
        problems.append(f"{PARAMS}.input must be a text or a list of items")
    if seeded:
        try:
            extra_body(Row(bytes(raw)))
        except RowError as error:
            problems.append(str(error))
    return problems


def index_problems(row: Row) -> list[str]:
    """What is wrong with the task index of an input row."""
    try:
        index = row.get(TASK_INDEX, int)
    except RowError as error:
        return [str(error)]
    if index is not None and not 0 <= index <= LARGEST_INDEX:
        return [f"{TASK_INDEX} must be an integer from 0 to 2**63 - 1"]
    return []


def agent_problem(name: str, known: Collection[str]) -> str | None:
    """What is wrong with the name of an agent; None where it exists."""
    if name in known:
        return None
    listed = f"the agents are: {', '.join(known)}" if known else "the configuration has no agents"
    return f"there is no agent {name!r}; {advice(name, known, listed)}"


def _fingerprint(status: os.stat_result) -> tuple[int, ...]:
    """Numbers that change whenever the content does."""
    kind = stat.S_IFMT(status.st_mode)
    return (kind, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _similar_name(path: Path) -> str:
    try:
        names = [each.name for each in path.parent.iterdir() if each.is_file()]
    except OSError:
        return ""
    close = nearest(path.name, names, 0.8)  # all of them end in .jsonl
    return f"; did you mean {path.parent / close}?" if close else ""


class CompactMap:
    """Several values may have the same key: `candidates` gives them all, oldest first.

    Open addressing in two arrays, at most half full.
    """

    __slots__ = ("_keys", "_mask", "_size", "_values")

    def __init__(self) -> None:
        self._size = 0
        self._mask = _INITIAL_SIZE - 1
        self._keys, self._values = _zeros(_INITIAL_SIZE), _zeros(_INITIAL_SIZE)

    def __len__(self) -> int:
        return self._size

    def candidates(self, key: int) -> Iterator[int]:
        """The values that were added under this key. Keys are from 0 to 2**64 - 1."""
        slot = _scrambled(key) & self._mask
        while (value := self._values[slot]) != _EMPTY:
            if self._keys[slot] == key:
                yield value - 1
            slot = (slot + 1) & self._mask

    def has(self, key: int) -> bool:
        return next(self.candidates(key), None) is not None

    def add(self, key: int, value: int) -> None:
        if 2 * (self._size + 1) > len(self._keys):
            self._grow()
        self._insert(key, value + 1)
        self._size += 1

    def _insert(self, key: int, stored: int) -> None:
        slot = _scrambled(key) & self._mask
        while self._values[slot] != _EMPTY:
            slot = (slot + 1) & self._mask
        self._keys[slot], self._values[slot] = key, stored

    def _grow(self) -> None:
        """Double the table.

        Copying starts at an empty slot, so that values of one key keep the order in which they were
        added.
        """
        keys, values, mask = self._keys, self._values, self._mask
        size = 2 * len(keys)
        self._mask = size - 1
        self._keys, self._values = _zeros(size), _zeros(size)
        empty = values.index(_EMPTY)
        for distance in range(len(keys)):
            slot = (empty + distance) & mask
            if values[slot] != _EMPTY:
                self._insert(keys[slot], values[slot])


def _zeros(count: int) -> "array[int]":
    return array("Q", (0,)) * count


def _scrambled(key: int) -> int:
    """Spread keys that are close together over the whole table."""
    return (key * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF) >> 20
