"""How far a file has been read, and whether it is still the file that was read.

A file that grew keeps what it began with and what stood before the end of what was read. Both are
kept as hashes: if they are the same the rest is read on, if not everything is read anew.
"""

import os
import sqlite3
from hashlib import blake2b
from typing import Self

import msgspec

_HEAD = 64 << 10
_TAIL = 4 << 10


class Progress(msgspec.Struct, kw_only=True):
    """`read` bytes and `records` lines are behind us, all of them finished.

    `unfinished` is the length of a last line that counts though it has no line break yet, and
    `digest` tells whether it is still the same; its entry has the number after `records`.
    """

    part: int
    path: str
    format: str
    read: int = 0
    records: int = 0
    head: bytes = b""
    tail: bytes = b""
    unfinished: int = 0
    digest: str = ""

    @classmethod
    def load(cls, connection: sqlite3.Connection, part: int, path: str, format_name: str) -> Self:
        """What the index says of a part; the beginning where it says nothing."""
        progress = cls(part=part, path=path, format=format_name)
        found = connection.execute(
            "SELECT read, records, head, tail FROM part WHERE id = ?", (part,)
        ).fetchone()
        if found is not None:
            progress.read, progress.records, progress.head, progress.tail = found
        found = connection.execute(
            "SELECT value FROM about WHERE name = ?", (_unfinished(part),)
        ).fetchone()
        if found is not None:
            length, _, progress.digest = str(found[0]).partition(" ")
            progress.unfinished = int(length)
        return progress

    def save(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?, ?)",
            (self.part, self.path, self.format, self.read, self.records, self.head, self.tail),
        )
        if self.unfinished:
            connection.execute(
                "INSERT OR REPLACE INTO about VALUES (?, ?)",
                (_unfinished(self.part), f"{self.unfinished} {self.digest}"),
            )
        else:
            connection.execute("DELETE FROM about WHERE name = ?", (_unfinished(self.part),))

    def mark(self, descriptor: int) -> None:
        """Remember what the file is, as far as it has been read. Raises OSError."""
        self.head, self.tail = _hashes(descriptor, self.read)

    def continues(self, descriptor: int) -> bool:
        """Whether what has been read is there still. Raises OSError."""
        return (self.head, self.tail) == _hashes(descriptor, self.read)


def unfinished_bytes(connection: sqlite3.Connection) -> int:
    """The lengths of the last lines that count though they have no line break."""
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
