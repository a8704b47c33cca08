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
    """The titles of all sources by their ids; a unique title stays as it is."""
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
    """For each source the fewest folders that no other one has; empty for a single source."""
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
"""Gives all sources that exist now, the known ones first. Raises StoreError."""
_log = logging.getLogger(__name__)


class _DocumentKey(NamedTuple):
    """The record that a document was made from. Rebuilding the index changes `generation`."""

    source: str
    entry: EntryId
    place: RecordRange
    generation: int


class Library:
    """The open sources by id. Start it before use, and close it.

    `sources` is never changed in place: when a source is added, it is replaced.
    """

    def __init__(self, sources: Sequence[ViewerSource], find: FindSources | None = None) -> None:
        """`find` is called every few seconds; without it, no source is added."""
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
        """Wait until every source was read once, for at most `FIRST_READ_SECONDS`."""
        deadline = time.monotonic() + FIRST_READ_SECONDS
        for opened in self.sources.values():
            opened.wait_for_first_lines(deadline)

    def close(self) -> None:
        """Stop reading, interrupt the running queries, and close the indexes."""
        self._stopping.set()
        for opened in self.sources.values():
            opened.interrupt()
        if self._reader.is_alive():
            self._reader.join(CLOSING_SECONDS)
        self._pool.shutdown(wait=False, cancel_futures=True)
        ending = threading.Thread(target=self._pool.shutdown, name="viewer closing", daemon=True)
        ending.start()
        ending.join(CLOSING_SECONDS)
        if not self._reader.is_alive():  # a thread that hangs on the disk still uses them
            for opened in self.sources.values():
                opened.close()

    def source(self, identity: str) -> OpenSource:
        """The source with this id, which is read before the others now. Raises RequestError."""
        opened = self.sources.get(identity)
        if opened is None:
            raise RequestError(
                HTTPStatus.NOT_FOUND,
                f"There is no source {identity[:100]!r}. The viewer was started with other paths.",
            )
        opened.asked = time.monotonic()
        return opened

    def document(self, opened: OpenSource, entry: EntryId) -> RolloutDocument:
        """Open a record, or return the kept document.

        Raises KeyError, StorageError, RequestError, ValueError.
        """
        with opened.reading() as connection:
            generation = generation_of(connection)
        # After the generation: a document of a rebuilt index is then kept under an outdated key.
        _, place = opened.index().place(entry)
        key = _DocumentKey(opened.source.id, entry, place, generation)
        return self._documents.get(key, lambda: opened.document(entry))

    async def work(self, job: Callable[[], T]) -> T:
        """Run the job in a thread. Raises its errors, or RequestError where it takes too long."""
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
                self._find_new_sources()
                for opened in self.sources.values():
                    opened.prepare()
                self._stopping.wait(POLL_SECONDS)

    def _find_new_sources(self) -> None:
        began = time.monotonic()
        if self._find is None or began < self._find_at:
            return
        known = self.sources
        try:
            found = self._find([opened.source for opened in known.values()])
        except (StoreError, OSError) as error:  # the folder is missing; it may come back
            _log.info("cannot look for new sources: %s", error)
            found = ()
        now = time.monotonic()
        # With very many files this takes long, and is done less often.
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
            known[identity].interrupt()
            known[identity].close()

    def _name_sources(self) -> None:
        titles = distinct_titles(opened.source for opened in self.sources.values())
        for identity, title in titles.items():
            self.sources[identity].title = title


class _DocumentCache:
    """The documents that were opened last: at least one, and more while they are small."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_DocumentKey, RolloutDocument] = OrderedDict()
        self._one_at_a_time = threading.Lock()

    def get(self, key: _DocumentKey, make: Callable[[], RolloutDocument]) -> RolloutDocument:
        """The kept document, or a new one. One is made at a time, since large ones need memory."""
        with self._one_at_a_time:
            document = self._kept.get(key) or make()
            self._kept[key] = document
            self._kept.move_to_end(key)
            while (
                len(self._kept) > 1
                and sum(each.size for each in self._kept.values()) > DOCUMENT_BYTES
            ):
                self._kept.popitem(last=False)
            return document
