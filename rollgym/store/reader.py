"""Reading journals as a stream, and telling which records still stand.

A rollout may have several final records: it failed and was run again later, or two shards ran it.
Exactly one of them stands, chosen by content alone so that the order of files and lines does not
matter: a completed one before any other, then the highest attempt, then the smaller digest.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from rollgym.records import (
    Attempt,
    Completed,
    RolloutKey,
    SchemaVersionError,
    decode_attempt,
)
from rollgym.store.errors import CorruptJournalError, RecordVersionError, storage_error
from rollgym.store.keyset import KeySet


class Entry(NamedTuple):
    """A record with the bytes it was read from and where they stand."""

    attempt: Attempt
    line: bytes
    path: Path
    offset: int


def read_journal(path: Path, end: int | None = None) -> Iterator[Entry]:
    """Every whole line of a journal, which may be growing meanwhile, up to byte `end`.

    Raises CorruptJournalError and RecordVersionError with file and line, and StorageError when
    the file cannot be read.
    """
    offset = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n") or (end is not None and offset + len(line) > end):
                    return
                try:
                    attempt = decode_attempt(line)
                except SchemaVersionError as error:
                    raise RecordVersionError(f"{path}:{number}: {error}") from error
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise CorruptJournalError(path, number, str(error)) from error
                yield Entry(attempt, line, path, offset)
                offset += len(line)
    except OSError as error:
        raise storage_error(error, path, "reading the journal") from error


def rank(entry: Entry) -> tuple[bool, int, bytes]:
    """Among final records of one rollout the least stands."""
    attempt = entry.attempt
    return (
        not isinstance(attempt.outcome, Completed),
        -attempt.attempt,
        sha256(entry.line).digest(),
    )


class _Snapshot:
    """Several journals as they are now, to be read more than once though they may be growing."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._ends: dict[Path, int] = {}
        for path in paths:
            try:
                self._ends[path] = path.stat().st_size
            except OSError as error:
                raise storage_error(error, path, "reading the journal") from error

    def __iter__(self) -> Iterator[Entry]:
        for path, end in self._ends.items():
            yield from read_journal(path, end)

    def finals(self) -> Iterator[Entry]:
        return (entry for entry in self if entry.attempt.final)


def read_standing(paths: Iterable[Path]) -> Iterator[tuple[Entry, bool]]:
    """Every record of several journals of one run, each with whether it stands.

    A final record stands when it is its rollout's outcome; of identical copies only the first
    does. An attempt that was not final always stands, as history. Reads the files more than once,
    in memory for a bit per rollout and for the contested ones.
    """
    snapshot = _Snapshot(paths)
    winners = _winners(snapshot)
    for entry in snapshot:
        winner = winners.get(entry.attempt.key) if entry.attempt.final else None
        yield entry, winner is None or winner == (entry.path, entry.offset)


def _winners(snapshot: _Snapshot) -> dict[RolloutKey, tuple[Path, int]]:
    """Where the standing record is of each rollout that has several final ones."""
    contested = _contested(snapshot)
    if not contested:
        return {}
    best: dict[RolloutKey, tuple[tuple[bool, int, bytes], tuple[Path, int]]] = {}
    for entry in snapshot.finals():
        key = entry.attempt.key
        if key in contested:
            candidate = (rank(entry), (entry.path, entry.offset))
            best[key] = min(best.get(key, candidate), candidate)
    return {key: place for key, (_, place) in best.items()}


def _contested(snapshot: _Snapshot) -> set[RolloutKey]:
    seen, contested = KeySet(), set()
    for entry in snapshot.finals():
        if not seen.add(entry.attempt.task, entry.attempt.repeat):
            contested.add(entry.attempt.key)
    return contested
