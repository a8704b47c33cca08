"""Events of a collection, and the observers that receive them.

Observers can neither slow nor break a collection. Each has a bounded queue and a thread. The engine
appends to the queue; when it is full, the event is dropped and counted. The thread wakes a few
times a second and passes the queued events on. An observer that raises receives no further events,
and the events it misses count as dropped. An observer that hangs is abandoned at the end.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from rollgym.engine.coverage import Coverage
from rollgym.records import Attempt, Failed, Omitted, RolloutKey, Task

QUEUE_SIZE = 20_000
WAKE_INTERVAL = 0.05
CLOSE_TIMEOUT = 5.0

log = logging.getLogger(__name__)


class CollectionStarted(msgspec.Struct, frozen=True):
    """The first event. `resumed` rollouts already have an outcome."""

    expected: int
    groups: int
    resumed: int


class AttemptStarted(msgspec.Struct, frozen=True):
    """An attempt starts. `limit` is the present limit on attempts in flight."""

    key: RolloutKey
    attempt: int
    in_flight: int
    limit: int


class WholeRecord(msgspec.Struct, frozen=True, weakref=True):
    """A record as the journal has it, with its `result`, and the task.

    `prepared` is what another process that made the record has made of it for observers.
    """

    task: Task
    attempt: Attempt
    prepared: bytes = b""


class AttemptRecorded(msgspec.Struct, frozen=True):
    """An attempt is on disk and synced.

    `attempt` has no `result`. `whole` gives the record with its result while it is in memory, which
    only the latest are; after that it gives None, and the record is in the journal at `offset`.
    `replaced` is the earlier outcome that this one replaces, reduced to its kind or reason.
    """

    attempt: Attempt
    journal: Path
    offset: int
    replaced: Failed | Omitted | None
    whole: Callable[[], WholeRecord | None] = lambda: None


class RolloutsReopened(msgspec.Struct, frozen=True):
    """Rollouts run again, whose outcomes are recorded; they count until others replace them."""

    count: int


class Held(msgspec.Struct, frozen=True):
    """No attempt starts for these reasons; without any, attempts start again."""

    reasons: tuple[str, ...]


class StopRequested(msgspec.Struct, frozen=True):
    """The collection is stopping, on request or because only stragglers are left."""

    reason: str


class CollectionEnded(msgspec.Struct, frozen=True):
    """The last event."""

    coverage: Coverage


Event = (
    CollectionStarted
    | AttemptStarted
    | AttemptRecorded
    | RolloutsReopened
    | Held
    | StopRequested
    | CollectionEnded
)


class Observer(Protocol):
    """Receives the events of a collection: a display, an exporter, metrics."""

    @property
    def name(self) -> str: ...

    def observe(self, events: Sequence[Event]) -> None:
        """Process events, in order. Called in the observer's own thread."""


class Feed:
    """The queue and the thread of one observer."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.dropped = 0
        self._queue: deque[Event] = deque()
        self._broken = False
        self._in_progress = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=self._pump, name=f"rollgym-observer-{observer.name}", daemon=True
        )
        self._thread.start()

    def put(self, event: Event) -> None:
        if self._broken or len(self._queue) >= QUEUE_SIZE:
            self.dropped += 1
        else:
            self._queue.append(event)

    async def close(self, deadline: float) -> None:
        """Let the observer catch up until `deadline` (monotonic), then abandon it."""
        self._closing.set()
        # Polled, because a thread to wait in might not be available.
        while self._thread.is_alive() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(WAKE_INTERVAL / 10)
        if self._thread.is_alive():
            self._broken = True
            self.dropped += self._in_progress + len(self._queue)
            log.warning("observer %s did not finish in time and was abandoned", self.observer.name)

    def _pump(self) -> None:
        last = False
        while not last:
            last = self._closing.wait(WAKE_INTERVAL)
            batch = [self._queue.popleft() for _ in range(len(self._queue))]
            if not batch or self._broken:
                continue
            self._in_progress = len(batch)
            try:
                self.observer.observe(batch)
                self._in_progress = 0
            except BaseException:
                self._broken = True
                self.dropped += len(batch) + len(self._queue)
                log.exception(
                    "observer %s failed and receives no further events", self.observer.name
                )
                return


class Observers:
    """All observers of one collection."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._feeds = [Feed(observer) for observer in observers]

    def __bool__(self) -> bool:
        return bool(self._feeds)

    def put(self, event: Event) -> None:
        for feed in self._feeds:
            feed.put(event)

    def dropped(self) -> dict[str, int]:
        """The number of events that each observer missed, for those that missed any."""
        return {feed.observer.name: feed.dropped for feed in self._feeds if feed.dropped}

    async def close(self) -> None:
        deadline = time.monotonic() + CLOSE_TIMEOUT
        for feed in self._feeds:
            await feed.close(deadline)
