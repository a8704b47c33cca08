"""What is open: the sources, their indexes, and the rollouts that were looked at last.

*Reading.* One thread goes round the sources and has each index read on for a moment, so that what
was read first can be looked at while the rest is still coming; those that somebody asked for come
first. When all are at their end it looks once a second whether something has been added, and now
and then whether there are sources that were not there before: a run that has begun since.

*Answering.* Whatever reads a disk happens in a pool of a few threads, each job with a deadline.

*Memory.* Opened rollouts are kept, up to `DOCUMENT_BYTES` of records: turning the pages of one does
not read it again.
"""

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import NamedTuple, TypeVar

from rollgym.store import StoreError
from rollgym.viewer.errors import PageError
from rollgym.viewer.index import EntryId
from rollgym.viewer.queries.version import begun_of
from rollgym.viewer.shelf import FIRST_LOOK_SECONDS, PAGE_PATIENCE, Shelf, too_slow
from rollgym.viewer.source import Place, Source
from rollgym.viewer.titles import distinct_titles
from rollgym.viewer.view import Document

LOOKING_SECONDS = 1.0
FINDING_SECONDS = 5.0
CLOSING_SECONDS = 5.0
THREADS = 4
DOCUMENT_BYTES = 64 << 20

T = TypeVar("T")
FindSources = Callable[[Sequence[Source]], Sequence[Source]]
"""Gives all sources that there are now, with those that are known first. Raises StoreError."""
_log = logging.getLogger(__name__)


class _Seen(NamedTuple):
    """Which record a document was made from: files that are read anew have others."""

    source: str
    entry: EntryId
    place: Place
    begun: int


class Library:
    """The open sources by id. To be started before it is asked, and closed.

    `shelves` is never changed, but another one when a source is added.
    """

    def __init__(self, sources: Sequence[Source], find: FindSources | None = None) -> None:
        """`find` is asked again and again; without it, the sources stay those."""
        self.shelves: Mapping[str, Shelf] = {source.id: Shelf(source) for source in sources}
        self._name_shelves()
        self._find = find
        self._find_at = time.monotonic() + FINDING_SECONDS
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="viewer")
        self._documents = _Documents()
        self._stopping = threading.Event()
        self._reader = threading.Thread(target=self._read, name="viewer index", daemon=True)

    def start(self) -> None:
        self._reader.start()

    def wait_for_first_lines(self) -> None:
        """Until every source was looked into once, but no longer than one waits for a page."""
        deadline = time.monotonic() + FIRST_LOOK_SECONDS
        for shelf in self.shelves.values():
            shelf.wait_for_first_lines(deadline)

    def close(self) -> None:
        """Stop reading, break off what is being looked up, and close the indexes."""
        self._stopping.set()
        for shelf in self.shelves.values():
            shelf.break_off()
        if self._reader.is_alive():
            self._reader.join(CLOSING_SECONDS)
        self._pool.shutdown(wait=False, cancel_futures=True)
        ending = threading.Thread(target=self._pool.shutdown, name="viewer closing", daemon=True)
        ending.start()
        ending.join(CLOSING_SECONDS)
        if not self._reader.is_alive():  # one that hangs in the disk would have to be waited for
            for shelf in self.shelves.values():
                shelf.close()

    def shelf(self, identity: str) -> Shelf:
        """The one that somebody asks for, which is read before the others. Raises PageError."""
        shelf = self.shelves.get(identity)
        if shelf is None:
            raise PageError(
                HTTPStatus.NOT_FOUND,
                f"There is no source {identity[:100]!r}: the viewer was started with other paths.",
            )
        shelf.asked = time.monotonic()
        return shelf

    def document(self, shelf: Shelf, entry: EntryId) -> Document:
        """Raises KeyError, StorageError, PageError, ValueError."""
        with shelf.reading() as connection:
            begun = begun_of(connection)
        # Asked for after that: what is read anew in between is kept under a name that is over.
        _, place = shelf.index().place(entry)
        seen = _Seen(shelf.source.id, entry, place, begun)
        return self._documents.get(seen, lambda: shelf.document(entry))

    async def work(self, job: Callable[[], T]) -> T:
        """Have a thread do the job. Raises what it raises, PageError where it takes too long."""
        try:
            async with asyncio.timeout(PAGE_PATIENCE):
                return await asyncio.get_running_loop().run_in_executor(self._pool, job)
        except TimeoutError as error:
            raise too_slow() from error

    def _read(self) -> None:
        while not self._stopping.is_set():
            is_more = False
            waiting = list(self.shelves.values())
            while waiting and not self._stopping.is_set():
                shelf = max(waiting, key=lambda each: each.asked)
                waiting.remove(shelf)
                is_more |= shelf.read_on()
            if not is_more:
                self._look_for_others()
                for shelf in self.shelves.values():
                    shelf.prepare()
                self._stopping.wait(LOOKING_SECONDS)

    def _look_for_others(self) -> None:
        began = time.monotonic()
        if self._find is None or began < self._find_at:
            return
        known = self.shelves
        try:
            found = self._find([shelf.source for shelf in known.values()])
        except (StoreError, OSError) as error:  # a folder that is gone; it may come back
            _log.info("sources were not looked for: %s", error)
            found = ()
        now = time.monotonic()
        # Where looking takes long, because there are very many files, it is done more seldom.
        self._find_at = now + max(FINDING_SECONDS, 10 * (now - began))
        changed = {
            source.id: Shelf(source)
            for source in found
            if source.id not in known or known[source.id].source != source
        }
        self.shelves = {**known, **changed}
        if changed:
            self._name_shelves()
        for identity in changed.keys() & known.keys():
            known[identity].break_off()
            known[identity].close()

    def _name_shelves(self) -> None:
        titles = distinct_titles(shelf.source for shelf in self.shelves.values())
        for identity, title in titles.items():
            self.shelves[identity].title = title


class _Documents:
    """The documents that were looked at last: one, and more where they are small."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Seen, Document] = OrderedDict()
        self._one_at_a_time = threading.Lock()

    def get(self, seen: _Seen, make: Callable[[], Document]) -> Document:
        """The kept one, or a new one. One is made at a time, since large ones take much memory."""
        with self._one_at_a_time:
            document = self._kept.get(seen) or make()
            self._kept[seen] = document
            self._kept.move_to_end(seen)
            while len(self._kept) > 1 and self._bytes() > DOCUMENT_BYTES:
                self._kept.popitem(last=False)
            return document

    def _bytes(self) -> int:
        return sum(document.size for document in self._kept.values())
