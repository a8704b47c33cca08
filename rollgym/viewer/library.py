"""The open sources: their indexes, and the documents that were read last.

*Reading.* One thread goes round the sources and lets each index read on for a moment, so that the
first records can be shown while the rest is still being read. Sources that were requested last come
first. When all files are read, the thread checks once a second for new records, and every few
seconds for new sources, such as a run that has just started.

*Queries.* All disk access happens in a pool of a few threads, each job with a timeout.

*Memory.* Documents are kept, up to `DOCUMENT_BYTES` of records, so that paging through a rollout
does not read it again.

*Titles.* Files of checkpoints often have the same name in several folders. Their titles include the
nearest folders in which they differ: `a/rollouts.jsonl` and `b/rollouts.jsonl`.
"""

import asyncio
import logging
import threading
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from itertools import takewhile
from typing import NamedTuple, TypeVar

from rollgym.store import StoreError
from rollgym.viewer.errors import RequestError
from rollgym.viewer.index.database import generation_of
from rollgym.viewer.open_source import FIRST_READ_SECONDS, QUERY_TIMEOUT, OpenSource, too_slow
from rollgym.viewer.source import EntryId, RecordRange, ViewerSource
from rollgym.viewer.view import RolloutDocument

_Folders = tuple[str, ...]


def distinct_titles(sources: Iterable[ViewerSource]) -> Mapping[str, str]:
    """The titles of all sources by their ids; one that no other has stays as it is."""
    same: dict[str, list[ViewerSource]] = defaultdict(list)
    for source in sources:
        same[source.title].append(source)
    titles = {
        source.id: "/".join((*folders, title))
        for title, alike in same.items()
        for source, folders in zip(alike, _distinguishing_folders(alike), strict=True)
    }
    counts = Counter(titles.values())
    return {
        identity: title if counts[title] == 1 else f"{title} ({identity})"
        for identity, title in titles.items()
    }


def _distinguishing_folders(alike: Sequence[ViewerSource]) -> list[_Folders]:
    """For each source the fewest folders that no other one has; none where there is one source."""
    if len(alike) == 1:
        return [()]
    paths = [source.path.parent.resolve().parts[1:] for source in alike]
    levels = zip(*(reversed(path) for path in paths), strict=False)
    common = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, levels))
    ends = [path[: len(path) - common] for path in paths]
    return [_nearest(end, ends) for end in ends]


def _nearest(folders: _Folders, all_folders: Sequence[_Folders]) -> _Folders:
    for count in range(1, len(folders)):
        own = folders[-count:]
        if sum(other[-count:] == own for other in all_folders) == 1:
            return own
    return folders


POLL_SECONDS = 1.0
DISCOVERY_SECONDS = 5.0
CLOSING_SECONDS = 5.0
THREADS = 4
DOCUMENT_BYTES = 64 << 20

T = TypeVar("T")
FindSources = Callable[[Sequence[ViewerSource]], Sequence[ViewerSource]]
"""Gives all sources that there are now, with those that are known first. Raises StoreError."""
_log = logging.getLogger(__name__)


class _DocumentKey(NamedTuple):
    """Which record a document was made from: files that are read anew have others."""

    source: str
    entry: EntryId
    place: RecordRange
    generation: int


class Library:
    """The open sources by id. To be started before it is asked, and closed.

    `sources` is never changed, but another one when a source is added.
    """

    def __init__(self, sources: Sequence[ViewerSource], find: FindSources | None = None) -> None:
        """`find` is asked again and again; without it, the sources stay those."""
        self.sources: Mapping[str, OpenSource] = {
            source.id: OpenSource(source) for source in sources
        }
        self._name_sources()
        self._find = find
        self._find_at = time.monotonic() + DISCOVERY_SECONDS
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="viewer")
        self._documents = _DocumentCache()
        self._stopping = threading.Event()
        self._reader = threading.Thread(target=self._read, name="viewer index", daemon=True)

    def start(self) -> None:
        self._reader.start()

    def wait_for_first_lines(self) -> None:
        """Until every source was looked into once, but no longer than one waits for a page."""
        deadline = time.monotonic() + FIRST_READ_SECONDS
        for opened in self.sources.values():
            opened.wait_for_first_lines(deadline)

    def close(self) -> None:
        """Stop reading, break off what is being looked up, and close the indexes."""
        self._stopping.set()
        for opened in self.sources.values():
            opened.break_off()
        if self._reader.is_alive():
            self._reader.join(CLOSING_SECONDS)
        self._pool.shutdown(wait=False, cancel_futures=True)
        ending = threading.Thread(target=self._pool.shutdown, name="viewer closing", daemon=True)
        ending.start()
        ending.join(CLOSING_SECONDS)
        if not self._reader.is_alive():  # one that hangs in the disk would have to be waited for
            for opened in self.sources.values():
                opened.close()

    def source(self, identity: str) -> OpenSource:
        """The one that somebody asks for, which is read before the others. Raises PageError."""
        opened = self.sources.get(identity)
        if opened is None:
            raise RequestError(
                HTTPStatus.NOT_FOUND,
                f"There is no source {identity[:100]!r}: the viewer was started with other paths.",
            )
        opened.asked = time.monotonic()
        return opened

    def document(self, opened: OpenSource, entry: EntryId) -> RolloutDocument:
        """Raises KeyError, StorageError, PageError, ValueError."""
        with opened.reading() as connection:
            generation = generation_of(connection)
        # Asked for after that: what is read anew in between is kept under a name that is over.
        _, place = opened.index().place(entry)
        key = _DocumentKey(opened.source.id, entry, place, generation)
        return self._documents.get(key, lambda: opened.document(entry))

    async def work(self, job: Callable[[], T]) -> T:
        """Have a thread do the job. Raises what it raises, PageError where it takes too long."""
        try:
            async with asyncio.timeout(QUERY_TIMEOUT):
                return await asyncio.get_running_loop().run_in_executor(self._pool, job)
        except TimeoutError as error:
            raise too_slow() from error

    def _read(self) -> None:
        while not self._stopping.is_set():
            is_more = False
            waiting = list(self.sources.values())
            while waiting and not self._stopping.is_set():
                opened = max(waiting, key=lambda each: each.asked)
                waiting.remove(opened)
                is_more |= opened.read_on()
            if not is_more:
                self._look_for_others()
                for opened in self.sources.values():
                    opened.prepare()
                self._stopping.wait(POLL_SECONDS)

    def _look_for_others(self) -> None:
        began = time.monotonic()
        if self._find is None or began < self._find_at:
            return
        known = self.sources
        try:
            found = self._find([opened.source for opened in known.values()])
        except (StoreError, OSError) as error:  # a folder that is gone; it may come back
            _log.info("sources were not looked for: %s", error)
            found = ()
        now = time.monotonic()
        # Where looking takes long, because there are very many files, it is done more seldom.
        self._find_at = now + max(DISCOVERY_SECONDS, 10 * (now - began))
        changed = {
            source.id: OpenSource(source)
            for source in found
            if source.id not in known or known[source.id].source != source
        }
        self.sources = {**known, **changed}
        if changed:
            self._name_sources()
        for identity in changed.keys() & known.keys():
            known[identity].break_off()
            known[identity].close()

    def _name_sources(self) -> None:
        titles = distinct_titles(opened.source for opened in self.sources.values())
        for identity, title in titles.items():
            self.sources[identity].title = title


class _DocumentCache:
    """The documents that were looked at last: one, and more where they are small."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_DocumentKey, RolloutDocument] = OrderedDict()
        self._one_at_a_time = threading.Lock()

    def get(self, key: _DocumentKey, make: Callable[[], RolloutDocument]) -> RolloutDocument:
        """The kept one, or a new one. One is made at a time, since large ones take much memory."""
        with self._one_at_a_time:
            document = self._kept.get(key) or make()
            self._kept[key] = document
            self._kept.move_to_end(key)
            while len(self._kept) > 1 and self._bytes() > DOCUMENT_BYTES:
                self._kept.popitem(last=False)
            return document

    def _bytes(self) -> int:
        return sum(document.size for document in self._kept.values())
