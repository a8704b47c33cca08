"""One open source: its index, and what is known about it without reading the disk again.

Its queries have a timeout; a query that is still running then is interrupted. Totals are counted
once for each version of the index. The overview of the whole source is kept in the index itself, so
that it is available at once the next time.

*Live.* One of three signs is enough for a collection that is still running: its files grew a moment
ago; a process holds the lock of its run; its monitor was written a moment ago and does not say that
it is finished. Locks are tried only every few seconds, because a collection that starts while one
is tried would find it taken.
"""

import logging
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from rollgym import __version__
from rollgym.store import FileLock, StorageError, StoreError, read_manifest
from rollgym.store.layout import RUN_LOCK, shard_locks
from rollgym.store.manifest import InputsIdentity
from rollgym.viewer.documents.row_document import UnreadableDocument
from rollgym.viewer.errors import RequestError
from rollgym.viewer.index.lines import (
    LONGEST_RECORD,
    TOO_LONG,
    printable_text,
    reason_of,
    unreadable_summary,
)
from rollgym.viewer.index.source_index import IndexState, SourceIndex
from rollgym.viewer.queries.counts import SourceTotals
from rollgym.viewer.queries.counts import totals as totals_of
from rollgym.viewer.queries.filter import Filter
from rollgym.viewer.queries.listing import Orders
from rollgym.viewer.queries.overview import overview
from rollgym.viewer.queries.search import SourceSearches
from rollgym.viewer.source import EntryId, ViewerSource
from rollgym.viewer.values import UNREADABLE
from rollgym.viewer.view import RolloutDocument, UnreadableView

GROWING_SECONDS = 10.0
MONITOR_SECONDS = 30.0
LOCK_SECONDS = 5.0
LARGEST_MONITOR = 1 << 24

Snapshot: TypeAlias = dict[str, Any]
_SNAPSHOT = msgspec.json.Decoder(Snapshot)


class _MonitorState(msgspec.Struct):
    """The fields of a monitor's snapshot that matter here."""

    time: float = 0.0
    finished: bool = False


class LiveCheck:
    """Checks one source. For one thread at a time."""

    def __init__(self, source: ViewerSource) -> None:
        self._source = source
        self._size = 0
        self._grew: float | None = None
        self._locked = False
        self._lock_tried: float | None = None

    def is_live(self) -> bool:
        if self._is_growing() or self._is_locked():
            return True
        return any(map(_is_current, read_monitors(self._source)))

    def _is_growing(self) -> bool:
        size, age = 0, GROWING_SECONDS
        for part in self._source.parts:
            with suppress(OSError):  # it does not exist yet, or was removed
                about = part.path.stat()
                size += about.st_size
                age = min(age, max(0.0, time.time() - about.st_mtime))
        now = time.monotonic()
        if size != self._size:
            # For the first size only the modification time says how old it is.
            self._grew = now if self._size else now - age
            self._size = size
        return self._grew is not None and now - self._grew < GROWING_SECONDS

    def _is_locked(self) -> bool:
        now = time.monotonic()
        if self._lock_tried is None or now - self._lock_tried >= LOCK_SECONDS:
            self._lock_tried = now
            manifest = self._source.manifest
            self._locked = manifest is not None and _is_run_locked(manifest.parent)
        return self._locked


def _is_current(snapshot: Snapshot) -> bool:
    try:
        moment = msgspec.convert(snapshot, _MonitorState)
    except msgspec.ValidationError:
        return False
    return not moment.finished and time.time() - moment.time < MONITOR_SECONDS


def read_monitors(source: ViewerSource) -> list[Snapshot]:
    """The last snapshot of each monitor of a source; unreadable ones are left out."""
    followed = (path for path in source.monitors if not source.leads_out(path))
    return [found for path in followed if (found := _snapshot(path)) is not None]


def _snapshot(path: Path) -> Snapshot | None:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_MONITOR + 1)
        return _SNAPSHOT.decode(data) if len(data) <= LARGEST_MONITOR else None
    except (OSError, *UNREADABLE):
        return None


def _is_run_locked(run: Path) -> bool:
    try:
        return any(FileLock(lock).is_held() for lock in (run / RUN_LOCK, *shard_locks(run)))
    except (StorageError, OSError):  # the folder is read-only, so the lock cannot be tried
        return False


QUERY_TIMEOUT = 30.0
READING_SECONDS = 0.25
FIRST_READ_SECONDS = 0.5
"""How long a response waits for the first records of a source that was just opened."""
RETRY_SECONDS = 5.0
EXCERPT_BYTES = 400
"""How much is shown of a line that is not a record."""
_CLOCK_CHECK_STEPS = 20_000
"""Virtual machine steps of a query between two checks of its timeout."""
_Signature = tuple[int, int, int]
"""Identifies the manifest that was read: a run that starts over writes another one."""
_SHARD = re.compile(r"-\d+-of-\d+\.jsonl$")
_log = logging.getLogger(__name__)


class OpenSource:
    """One open source. Any thread may query it; only the library's thread reads on."""

    def __init__(self, source: ViewerSource) -> None:
        self.source = source
        self.title = source.title
        """Shown to people; longer than the source's title where several sources have the same."""
        self.asked = 0.0
        """When it was last requested, by the monotonic clock."""
        self.is_live = False
        self.searches = SourceSearches()
        self.orders = Orders()
        self._index = SourceIndex(source)
        self._liveness = LiveCheck(source)
        self._opening = threading.Lock()
        self._is_open = False
        self._problem = ""
        self._problem_since = 0.0
        self._first_read = threading.Event()
        self._closing = False
        self._totals: tuple[tuple[int, int | None], SourceTotals] | None = None
        self._manifest: tuple[_Signature | None, InputsIdentity | None] = (None, None)
        self._prepared: int | None = None

    @property
    def manifest(self) -> Path | None:
        """The manifest of the run, unless it has become a link out of the folder."""
        manifest = self.source.manifest
        return None if manifest is None or self.source.leads_out(manifest) else manifest

    def index(self) -> SourceIndex:
        """The open index, with the first records in it. Raises StorageError."""
        self._open()
        self.wait_for_first_lines(time.monotonic() + FIRST_READ_SECONDS)
        return self._index

    def wait_for_first_lines(self, deadline: float) -> None:
        """Wait until the source was read once, or until the deadline."""
        self._first_read.wait(max(0.0, deadline - time.monotonic()))

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection whose queries end after `QUERY_TIMEOUT`.

        Raises StorageError, RequestError.
        """
        deadline = time.monotonic() + QUERY_TIMEOUT
        with self.index().reading() as connection:
            connection.set_progress_handler(
                lambda: self._closing or time.monotonic() > deadline, _CLOCK_CHECK_STEPS
            )
            try:
                yield connection
            except sqlite3.OperationalError as error:
                if self._closing or time.monotonic() > deadline:
                    raise too_slow() from error
                raise
            finally:
                connection.set_progress_handler(None, 0)

    def totals(self) -> tuple[IndexState, SourceTotals]:
        """The state of the index and its totals, counted once for each version.

        Raises StorageError, also for an error while reading the files.
        """
        if self._problem:
            raise StorageError(self._problem)
        self._open()
        state, expected = self._index.state(), self.expected()
        known = self._totals
        if known is None or known[0] != (state.version, expected):
            with self._index.reading() as connection:
                known = (state.version, expected), totals_of(connection, expected)
            self._totals = known
        return state, known[1]

    def overview(self) -> bytes:
        """The JSON of the overview of the whole source, kept until a record is added.

        Raises StorageError, RequestError.
        """
        index, expected = self.index(), self.expected()
        name = overview_cache_name(expected)
        kept = index.kept(name)
        if kept is not None:
            return kept
        state = index.state()
        with self.reading() as connection:
            body = msgspec.json.encode(overview(connection, Filter(), expected))
        if state.ready:
            index.keep(name, body, state.version)
        return body

    def expected(self) -> int | None:
        """The number of expected rollouts; None where it is unknown."""
        if self.source.expected is not None:
            return self.source.expected
        manifest = self.manifest
        if manifest is None or _SHARD.search(self.source.path.name):
            return None
        inputs = self._inputs(manifest)
        return None if inputs is None else inputs.rollouts

    def repeats(self) -> int | None:
        """The number of expected repeats of each task; None where it is unknown."""
        manifest = self.manifest
        inputs = None if manifest is None else self._inputs(manifest)
        if inputs is None or not inputs.tasks or inputs.rollouts % inputs.tasks:
            return None
        return inputs.rollouts // inputs.tasks

    def _inputs(self, manifest: Path) -> InputsIdentity | None:
        known, inputs = self._manifest
        try:
            about = manifest.stat()
            present = (about.st_ino, about.st_size, about.st_mtime_ns)
            if known != present:
                found = read_manifest(manifest.parent)
                inputs = None if found is None else found.identity.inputs
                self._manifest = present, inputs
        except (OSError, StoreError):
            return None
        return inputs

    def document(self, entry: EntryId) -> RolloutDocument:
        """Open a record. Raises KeyError, StorageError, and ValueError if it is not a record."""
        part, place = self._index.place(entry)
        if place.length > LONGEST_RECORD:
            raise ValueError(TOO_LONG)
        try:
            return part.format.document(self._index.record(entry), self._index)
        except RecursionError as error:
            raise ValueError(reason_of(error)) from error

    def unreadable_document(self, entry: EntryId, problem: str) -> RolloutDocument:
        """A document that explains an unreadable record. Raises KeyError, StorageError."""
        part, place = self._index.place(entry)
        beginning = self._index.record(entry, EXCERPT_BYTES)
        text = printable_text(beginning, whole=place.length <= EXCERPT_BYTES)
        view = UnreadableView(entry.record, place.position, place.length, problem, text)
        named = "line" if part.format.by_lines else "record"
        return UnreadableDocument(unreadable_summary(f"{named} {entry.record}", problem), view)

    def read_on(self) -> bool:
        """Read for a moment; returns whether there is more to read."""
        if self._problem and time.monotonic() - self._problem_since < RETRY_SECONDS:
            return False
        try:
            self._open()
            is_at_end = self._index.extend(READING_SECONDS)
        except (StorageError, sqlite3.Error) as error:
            self._fail(str(error))
            is_at_end = True
        except Exception as error:  # noqa: BLE001 - of a plug-in; the thread must go on with the others
            _log.exception("cannot read %s", self.source.path)
            self._fail(f"cannot read {self.source.path}: {type(error).__name__}: {error}")
            is_at_end = True
        else:
            self._problem = ""
        self._first_read.set()
        self.is_live = self._liveness.is_live()
        return not is_at_end

    def prepare(self) -> None:
        """Compute the overview in advance, unless the source is live and about to change."""
        if self.is_live or self._problem or self._closing:
            return
        try:
            state = self._index.state()
            if state.ready and state.version != self._prepared:
                self._prepared = state.version
                self.overview()
        except (StorageError, RequestError, sqlite3.Error) as error:
            _log.info("cannot prepare the overview of %s: %s", self.source.path, error)

    def interrupt(self) -> None:
        """Interrupt the running queries and searches."""
        self._closing = True
        self.searches.close()

    def close(self) -> None:
        with self._opening:
            self._index.close()
            self._is_open = False

    def _fail(self, problem: str) -> None:
        """Remember the problem. After `RETRY_SECONDS` the index is opened again."""
        self._problem, self._problem_since = problem, time.monotonic()
        with self._opening:
            self._is_open = False

    def _open(self) -> None:
        with self._opening:
            if self._closing:
                raise StorageError(f"{self.source.path} is being closed: try again in a moment")
            if not self._is_open:
                self._index.open()
                self._is_open = True


def overview_cache_name(expected: int | None) -> str:
    """The name under which the overview is kept: it depends on the expected rollouts too."""
    return f"overview of rollgym {__version__}, {expected} expected"


def too_slow() -> RequestError:
    return RequestError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        f"This took longer than {QUERY_TIMEOUT:.0f} s. The disk is slow or busy. Try again later.",
    )
