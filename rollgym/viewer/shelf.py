"""One source that is open: its index, and what is known of it without asking the disk again.

Its queries have a deadline: one that is still running then is broken off. Counting everything is
done once for each version of the index, and the overview of all is kept with the index itself, so
that it is there at once the next time.
"""

import logging
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import msgspec

from rollgym import __version__
from rollgym.records import Row
from rollgym.store import StorageError, StoreError, read_manifest
from rollgym.viewer.errors import PageError
from rollgym.viewer.index import EntryId, IndexState, SourceIndex
from rollgym.viewer.liveness import Liveness
from rollgym.viewer.queries.coverage import Totals
from rollgym.viewer.queries.coverage import totals as totals_of
from rollgym.viewer.queries.filter import Filter
from rollgym.viewer.queries.orders import Orders
from rollgym.viewer.queries.overview import overview
from rollgym.viewer.queries.search import Searches
from rollgym.viewer.source import Source
from rollgym.viewer.view import Document

PAGE_PATIENCE = 30.0
READING_SECONDS = 0.25
FIRST_LOOK_SECONDS = 0.5
"""How long an answer waits for the first lines of a source that was opened just now."""
AGAIN_SECONDS = 5.0
OVERVIEW = f"overview of rollgym {__version__}"
"""What the overview of all is kept as."""
_STEPS_BETWEEN_LOOKS = 20_000
"""How many steps of a query go by between two looks at the clock."""
_SHARD = re.compile(r"-\d+-of-\d+\.jsonl$")
_log = logging.getLogger(__name__)


class Shelf:
    """One source that is open. Any thread may ask it; the reader's thread alone reads on."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.asked = 0.0
        """When somebody last asked for it, by the monotonic clock."""
        self.is_live = False
        self.searches = Searches()
        self.orders = Orders()
        self._index = SourceIndex(source)
        self._liveness = Liveness(source)
        self._opening = threading.Lock()
        self._is_open = False
        self._problem = ""
        self._problem_since = 0.0
        self._met = threading.Event()
        self._closing = False
        self._totals: tuple[int, Totals | None] = (0, None)
        self._expected: int | None = None
        self._prepared: int | None = None

    @property
    def images(self) -> Path | None:
        return self.source.images

    def input_row(self, task: int) -> Row | None:
        return self._index.input_row(task)

    def index(self) -> SourceIndex:
        """To look things up in, with the first lines in it. Raises StorageError."""
        self._open()
        self.wait_for_first_lines(time.monotonic() + FIRST_LOOK_SECONDS)
        return self._index

    def wait_for_first_lines(self, deadline: float) -> None:
        """Until it was looked into once, or until then."""
        self._met.wait(max(0.0, deadline - time.monotonic()))

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection whose queries end after `PAGE_PATIENCE`. Raises StorageError, PageError."""
        deadline = time.monotonic() + PAGE_PATIENCE
        with self.index().reading() as connection:
            connection.set_progress_handler(
                lambda: self._closing or time.monotonic() > deadline, _STEPS_BETWEEN_LOOKS
            )
            try:
                yield connection
            except sqlite3.OperationalError as error:
                if self._closing or time.monotonic() > deadline:
                    raise too_slow() from error
                raise
            finally:
                connection.set_progress_handler(None, 0)

    def totals(self) -> tuple[IndexState, Totals]:
        """How far the index is and what is in it, counted once for each version.

        Raises StorageError, also for what went wrong while reading on.
        """
        if self._problem:
            raise StorageError(self._problem)
        self._open()
        state = self._index.state()
        known, totals = self._totals
        if totals is None or known != state.version:
            with self._index.reading() as connection:
                totals = totals_of(connection, self.expected())
            self._totals = state.version, totals
        return state, totals

    def overview(self) -> bytes:
        """The JSON of the overview of all, kept for as long as nothing is added.

        Raises StorageError, PageError.
        """
        index = self.index()
        kept = index.kept(OVERVIEW)
        if kept is not None:
            return kept
        state = index.state()
        with self.reading() as connection:
            body = msgspec.json.encode(overview(connection, Filter(), self.expected()))
        if state.ready:
            index.keep(OVERVIEW, body, state.version)
        return body

    def expected(self) -> int | None:
        """How many rollouts there are to be; None where nobody says it of all that is shown."""
        manifest = self.source.manifest
        if self.source.expected is not None:
            return self.source.expected
        if self._expected is None and manifest and not _SHARD.search(self.source.path.name):
            try:
                found = read_manifest(manifest.parent)
            except StoreError:
                return None
            self._expected = None if found is None else found.identity.inputs.rollouts
        return self._expected

    def document(self, entry: EntryId) -> Document:
        """Raises KeyError, StorageError, ValueError."""
        part, _ = self._index.place(entry)
        try:
            return part.format.document(self._index.record(entry), self)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error

    def read_on(self) -> bool:
        """Read for a moment; whether there is more to read."""
        if self._problem and time.monotonic() - self._problem_since < AGAIN_SECONDS:
            return False
        try:
            self._open()
            is_at_end = self._index.extend(READING_SECONDS)
        except (StorageError, sqlite3.Error) as error:
            self._problem, self._problem_since = str(error), time.monotonic()
            is_at_end = True
        else:
            self._problem = ""
        self._met.set()
        self.is_live = self._liveness.is_live()
        return not is_at_end

    def prepare(self) -> None:
        """Have the overview ready for whoever comes next, unless it is about to change."""
        if self.is_live or self._problem or self._closing:
            return
        try:
            state = self._index.state()
            if state.ready and state.version != self._prepared:
                self._prepared = state.version
                self.overview()
        except (StorageError, PageError, sqlite3.Error) as error:
            _log.info("the overview of %s was not prepared: %s", self.source.path, error)

    def break_off(self) -> None:
        """End the queries that are running, and the searches."""
        self._closing = True
        self.searches.close()

    def close(self) -> None:
        with self._opening:
            if self._is_open:
                self._index.close()
            self._is_open = False

    def _open(self) -> None:
        with self._opening:
            if not self._is_open:
                self._index.open()
                self._is_open = True


def too_slow() -> PageError:
    return PageError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        f"This took longer than {PAGE_PATIENCE:.0f} s: the disk is slow or busy. Try again later.",
    )
