"""Observers watch a collection and can neither slow nor break it.

Each observer has a bounded queue and a thread of its own. The engine appends to the queue, or, when
it is full, drops the event and counts it. The thread wakes a few times a second and hands over what
has gathered. An observer that raises gets nothing more; what it misses counts as dropped. One that
hangs is left behind at the end.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from rollgym.engine.events import Event

QUEUE_SIZE = 20_000
WAKE_INTERVAL = 0.05
CLOSING_PATIENCE = 5.0

log = logging.getLogger(__name__)


class Observer(Protocol):
    """Something that watches: a display, an exporter, metrics."""

    @property
    def name(self) -> str: ...

    def observe(self, events: Sequence[Event]) -> None:
        """Take in what happened, in order. Runs in the observer's own thread."""


class Feed:
    """The queue and the thread of one observer."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.dropped = 0
        self._queue: deque[Event] = deque()
        self._broken = False
        self._in_hand = 0
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
        """Let the observer catch up until `deadline` (monotonic); leave it behind after that."""
        self._closing.set()
        # Asked again and again, because a thread to wait in might itself be hard to get.
        while self._thread.is_alive() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(WAKE_INTERVAL / 10)
        if self._thread.is_alive():
            self._broken = True
            self.dropped += self._in_hand + len(self._queue)
            log.warning("observer %s did not finish and was left behind", self.observer.name)

    def _pump(self) -> None:
        last = False
        while not last:
            last = self._closing.wait(WAKE_INTERVAL)
            batch = [self._queue.popleft() for _ in range(len(self._queue))]
            if not batch or self._broken:
                continue
            self._in_hand = len(batch)
            try:
                self.observer.observe(batch)
                self._in_hand = 0
            except BaseException:
                self._broken = True
                self.dropped += len(batch) + len(self._queue)
                log.exception("observer %s failed and gets no more events", self.observer.name)
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
        """Events that observers missed, by observer, where there are any."""
        return {feed.observer.name: feed.dropped for feed in self._feeds if feed.dropped}

    async def close(self) -> None:
        deadline = time.monotonic() + CLOSING_PATIENCE
        for feed in self._feeds:
            await feed.close(deadline)
