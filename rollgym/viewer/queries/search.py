"""Searches of text in the records of a source, in the background.

An answer says what was found so far, and that there may be more; whoever wants more asks again. One
thread reads for all searches of a source, for the one that was asked for last. It ends when nothing
is left to read, and a search that nobody asked about for a while is not gone on with. The results
of the last few searches are kept, and go on growing with the file.
"""

import sqlite3
import threading
from array import array
from collections import OrderedDict
from time import monotonic
from typing import NamedTuple

import msgspec

from rollgym.store.errors import StorageError
from rollgym.viewer.index.database import version_of
from rollgym.viewer.index.source_index import SourceIndex
from rollgym.viewer.queries.scan import TextScan
from rollgym.viewer.source import size_of_file

ABANDONED_SECONDS = 15.0
"""Seconds without being asked about."""
WAIT_SECONDS = 0.2
"""How long an answer waits for the end of a search, which small files have at once."""
_KEPT = 8
_PORTION = 0.05
_CLOSING = 5.0


class SearchProgress(msgspec.Struct, frozen=True):
    """How far a search has come, in bytes, and how many entries it has found."""

    read: int
    size: int
    done: bool
    matches: int


class SearchResult(NamedTuple):
    """What a search came to so far; `entries` are their numbers, for `Filter.among`."""

    search: SearchProgress
    entries: "array[int]"


class _RunningSearch:
    """A scan, and what it came to when it was last looked at.

    The scan is that of the thread; all else changes only while the lock is held.
    """

    __slots__ = ("at", "entries", "problem", "reached", "read", "scan", "version")

    def __init__(self, text: str) -> None:
        self.scan = TextScan(text)
        self.entries = array("Q")
        self.read = 0
        self.reached = -1
        """The version of the index of which all was read."""
        self.version = 0
        """The version of the index when it was last asked about."""
        self.at = 0.0
        self.problem: StorageError | None = None

    @property
    def caught_up(self) -> bool:
        return self.reached >= self.version

    def publish(self) -> None:
        """The array is a new one, so that whoever has the last one may keep it."""
        scan = self.scan
        self.entries = array("Q", scan.matches)
        self.read, self.reached = scan.read, scan.version


class SourceSearches:
    """The searches of one source. For any thread."""

    def __init__(self, patience: float = WAIT_SECONDS) -> None:
        self._patience = patience
        self._asked: OrderedDict[str, _RunningSearch] = OrderedDict()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def find(self, text: str, index: SourceIndex) -> SearchResult:
        """Begin to search for a text, or go on with it; waits a moment for the end of it.

        Raises StorageError where a file or the index cannot be read; asking again tries again.
        """
        state = index.state()
        with index.reading() as connection:
            version = version_of(connection)
        deadline = monotonic() + self._patience
        with self._changed:
            asked = self._ask(text, version)
            self._start(index)
            while not asked.caught_up and asked.problem is None and not self._closed:
                if not self._changed.wait(deadline - monotonic()):
                    break
            if asked.problem is not None:
                self._asked.pop(_key(text), None)
                raise asked.problem
            done = state.ready and asked.caught_up
            entries, read = asked.entries, asked.read
        size = sum(size_of_file(part.path) for part in index.source.parts)
        return SearchResult(
            SearchProgress(size if done else min(read, size), size, done, len(entries)), entries
        )

    def close(self) -> None:
        """End the thread, within a moment."""
        with self._changed:
            self._closed = True
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(_CLOSING)

    def _ask(self, text: str, version: int) -> _RunningSearch:
        asked = self._asked.setdefault(_key(text), _RunningSearch(text))
        self._asked.move_to_end(_key(text))
        while len(self._asked) > _KEPT:
            self._asked.popitem(last=False)
        asked.at, asked.version = monotonic(), version
        return asked

    def _start(self, index: SourceIndex) -> None:
        if self._thread is None and not self._closed and self._next() is not None:
            name = f"search in {index.source.title}"
            self._thread = threading.Thread(
                target=self._work, args=(index,), name=name, daemon=True
            )
            self._thread.start()

    def _next(self) -> _RunningSearch | None:
        """What is to be read for: the last asked about, of those that are not at their end."""
        oldest = monotonic() - ABANDONED_SECONDS
        for asked in reversed(self._asked.values()):
            if not asked.caught_up and asked.problem is None and asked.at > oldest:
                return asked
        return None

    def _work(self, index: SourceIndex) -> None:
        try:
            while (asked := self._taken()) is not None:
                problem = _advanced(asked.scan, index)
                with self._changed:
                    asked.problem = problem
                    asked.publish()
                    self._changed.notify_all()
        except BaseException:
            with self._changed:
                self._thread = None
            raise

    def _taken(self) -> _RunningSearch | None:
        """The next one; where there is none the thread is over, and says so at once."""
        with self._changed:
            asked = None if self._closed else self._next()
            if asked is None:
                self._thread = None
            return asked


def _advanced(scan: TextScan, index: SourceIndex) -> StorageError | None:
    try:
        scan.advance(index, monotonic() + _PORTION)
    except StorageError as error:
        return error
    except sqlite3.Error as error:
        return StorageError(f"{index.source.path}: the index cannot be searched in ({error})")
    return None


def _key(text: str) -> str:
    """Texts that are searched for alike."""
    return text.encode("utf-8", "replace").lower().decode("utf-8")
