"""How far a file has been read, and whether it is still the file that was read.

A file that grew still has the same start, and the same bytes before the position that was reached.
Both are kept as hashes: if they are equal, reading continues; if not, everything is read again.

A file with another modification time and the same size did not grow: its content may have changed,
and it is read again too. This only applies to files *at rest*, which were not written to for a
moment. While a file is written to, its time runs ahead of its size, and two changes may have the
same time.
"""

import os
import sqlite3
import time
from hashlib import blake2b
from typing import Self

import msgspec

_HEAD = 64 << 10
_TAIL = 4 << 10
_REST_SECONDS = 2.0
"""No file system has a coarser clock."""


class ReadProgress(msgspec.Struct, kw_only=True):
    """How far a part was read: `read` bytes and `records` lines, all of them finished.

    `unfinished` is the length of a last line that is a record although it has no line break yet;
    `digest` tells whether it is still the same. Its entry has the number after `records`.

    `size` and `changed` (modification time in nanoseconds) are those of the file when it was last
    at rest.
    """

    part: int
    path: str
    format: str
    read: int = 0
    records: int = 0
    head: bytes = b""
    tail: bytes = b""
    size: int = -1
    changed: int = 0
    unfinished: int = 0
    digest: str = ""

    @classmethod
    def load(cls, connection: sqlite3.Connection, part: int, path: str, format_name: str) -> Self:
        """The progress of a part from the index; at the start where the index has none."""
        progress = cls(part=part, path=path, format=format_name)
        found = connection.execute(
            "SELECT read, records, head, tail, size, changed FROM part WHERE id = ?", (part,)
        ).fetchone()
        if found is not None:
            progress.read, progress.records, progress.head, progress.tail = found[:4]
            progress.size, progress.changed = found[4:]
        found = connection.execute(
            "SELECT value FROM about WHERE name = ?", (_unfinished(part),)
        ).fetchone()
        if found is not None:
            length, _, progress.digest = str(found[0]).partition(" ")
            progress.unfinished = int(length)
        return progress

    def save(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self.part,
                self.path,
                self.format,
                self.read,
                self.records,
                self.head,
                self.tail,
                self.size,
                self.changed,
            ),
        )
        if self.unfinished:
            connection.execute(
                "INSERT OR REPLACE INTO about VALUES (?, ?)",
                (_unfinished(self.part), f"{self.unfinished} {self.digest}"),
            )
        else:
            connection.execute("DELETE FROM about WHERE name = ?", (_unfinished(self.part),))

    def mark(self, descriptor: int) -> None:
        """Store the hashes of the file up to the position that was read. Raises OSError."""
        self.head, self.tail = _hashes(descriptor, self.read)

    def continues(self, descriptor: int) -> bool:
        """Whether the bytes that were read are still the same. Raises OSError."""
        return (self.head, self.tail) == _hashes(descriptor, self.read)

    def is_rewritten(self, found: os.stat_result) -> bool:
        """Whether the file was changed without growing since it was last seen at rest.

        If it is at rest now, this is what it is compared with the next time.
        """
        if not is_at_rest(found):
            return False
        size, changed = self.size, self.changed
        self.size, self.changed = found.st_size, found.st_mtime_ns
        return size == self.size and changed != self.changed


def is_at_rest(found: os.stat_result) -> bool:
    """Whether a file was not written to for a moment."""
    return time.time() - found.st_mtime > _REST_SECONDS


def unfinished_bytes(connection: sqlite3.Connection) -> int:
    """The total length of last lines that are records although they have no line break."""
    rows = connection.execute("SELECT value FROM about WHERE name GLOB ?", (_unfinished("*"),))
    return sum(int(str(value).partition(" ")[0]) for (value,) in rows)


def _hashes(descriptor: int, read: int) -> tuple[bytes, bytes]:
    if read == 0:
        return b"", b""
    tail = min(read, _TAIL)
    return (
        _digest(os.pread(descriptor, min(read, _HEAD), 0)),
        _digest(os.pread(descriptor, tail, read - tail)),
    )


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _unfinished(part: int | str) -> str:
    return f"unfinished {part}"
