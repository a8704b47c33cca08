"""Text searches in the records of a source, in the background.

A response has the matches so far and says whether there may be more; the page then asks again. One
thread reads for all searches of a source, starting with the one that was requested last. It ends
when everything is read. A search that was not requested for a while is not continued. The results
of the last few searches are kept, and grow with the file.
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
"""Seconds without a request after which a search is not continued."""
WAIT_SECONDS = 0.2
"""How long a response waits for the end of a search, which is enough for small files."""
_KEPT = 8
_PORTION = 0.05
_CLOSING = 5.0


class SearchProgress(msgspec.Struct, frozen=True):
    """How far a search is, in bytes, and how many entries it has found."""

    read: int
    size: int
    done: bool
    matches: int


class SearchResult(NamedTuple):
    """The result of a search so far; `entries` are entry numbers, for `Filter.among`."""

    search: SearchProgress
    entries: "array[int]"


class _RunningSearch:
    """A scan, and its last published result.

    Only the thread uses the scan; all other attributes change only while the lock is held.
    """

    __slots__ = ("at", "entries", "problem", "reached", "read", "scan", "version")

    def __init__(self, text: str) -> None:
        self.scan = TextScan(text)
        self.entries = array("Q")
        self.read = 0
        self.reached = -1
        """The version of the index that was searched to its end."""
        self.version = 0
        """The version of the index at the last request."""
        self.at = 0.0
        self.problem: StorageError | None = None

    @property
    def caught_up(self) -> bool:
        return self.reached >= self.version

    def publish(self) -> None:
        """Publish the matches in a new array, so that earlier results do not change."""
        scan = self.scan
        self.entries = array("Q", scan.matches)
        self.read, self.reached = scan.read, scan.version


class SourceSearches:
    """The searches of one source. For any thread."""

    def __init__(self) -> None:
        self._asked: OrderedDict[str, _RunningSearch] = OrderedDict()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def find(self, text: str, index: SourceIndex) -> SearchResult:
        """Start or continue the search for a text; waits a moment for its end.

        Raises StorageError where a file or the index cannot be read; the next call tries again.
        """
        state = index.state()
        with index.reading() as connection:
            version = version_of(connection)
        deadline = monotonic() + WAIT_SECONDS
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
        """End the thread."""
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
        """The unfinished search that was requested last."""
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
        """The next search; if there is none, the thread ends and is forgotten at once."""
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
        return StorageError(f"cannot search the index of {index.source.path} ({error})")
    return None


def _key(text: str) -> str:
    """Equal for texts that have the same matches."""
    return text.encode("utf-8", "replace").lower().decode("utf-8")
