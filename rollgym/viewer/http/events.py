"""Changes as server-sent events: `GET /api/events`.

`event: source` has what `/api/sources` says about one source, at the start and whenever it changes.
`event: monitor` has the last snapshots of its task monitors, without the list of their rollouts.
The server checks for changes once a second for all clients together. A slow client gets the latest
state of each source and misses the states in between. A stream ends after `LONGEST_STREAM` seconds;
browsers then connect again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import NamedTuple

import msgspec
from aiohttp import web

from rollgym.viewer.errors import RequestError
from rollgym.viewer.http.sources import describe_source
from rollgym.viewer.library import Library
from rollgym.viewer.open_source import OpenSource, Snapshot, read_monitors

INTERVAL = 1.0
MOST_CLIENTS = 32
WRITE_SECONDS = 10.0
HEARTBEAT_SECONDS = 15.0
LONGEST_STREAM = 3600.0
RECONNECT_SECONDS = 2
ROLLOUTS = "rollouts"
"""The field of a snapshot that only `/monitor` sends: thousands of task and repeat pairs."""

_Subject = tuple[str, str]
"""The kind of the event, and the id of the source."""


class _LatestEvent(NamedTuple):
    """The latest event of one subject. `number` grows with every change of any subject."""

    number: int
    data: bytes


class Events:
    """The handler of event streams, and what all streams share."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._clients = 0
        self._news: dict[_Subject, _LatestEvent] = {}
        self._changes = 0
        self._looked: float | None = None
        self._looking = asyncio.Lock()
        self._closing = asyncio.Event()

    async def close(self, _: web.Application) -> None:
        """End all streams."""
        self._closing.set()

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Send events until the client disconnects. Raises RequestError if there are too many."""
        if self._clients >= MOST_CLIENTS:
            raise RequestError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{self._clients} pages already receive live updates. Close one of them, or reload "
                "this page to see changes.",
            )
        self._clients += 1
        try:
            response = web.StreamResponse()
            response.content_type = "text/event-stream"
            response.charset = "utf-8"
            await response.prepare(request)
            with contextlib.suppress(ConnectionError, TimeoutError):  # the client disconnected
                await self._send(response.write)
            return response
        finally:
            self._clients -= 1

    async def _send(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        async def send(data: bytes) -> None:
            async with asyncio.timeout(WRITE_SECONDS):
                await write(data)

        clock = asyncio.get_running_loop().time
        end, heard, sent = clock() + LONGEST_STREAM, clock(), 0
        await send(f"retry: {1000 * RECONNECT_SECONDS}\n\n".encode())
        while clock() < end and not self._closing.is_set():
            await self._look()
            newest = self._changes
            for (kind, _), news in list(self._news.items()):
                if news.number > sent:
                    await send(b"event: %s\ndata: %s\n\n" % (kind.encode(), news.data))
                    heard = clock()
            sent = newest
            if clock() - heard >= HEARTBEAT_SECONDS:
                await send(b": heartbeat\n\n")
                heard = clock()
            await self._pause()

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(INTERVAL):
                await self._closing.wait()

    async def _look(self) -> None:
        """Check for changes, at most once per interval for all clients."""
        async with self._looking:
            now = asyncio.get_running_loop().time()
            if self._looked is not None and now - self._looked < INTERVAL / 2:
                return
            try:
                found = await self._library.work(self._current)
            except RequestError:  # slow for the moment: the stream goes on
                return
            self._looked = asyncio.get_running_loop().time()
            for subject, data in found.items():
                known = self._news.get(subject)
                if known is None or known.data != data:
                    self._changes += 1
                    self._news[subject] = _LatestEvent(self._changes, data)

    def _current(self) -> dict[_Subject, bytes]:
        found: dict[_Subject, bytes] = {}
        for identity, opened in self._library.sources.items():
            found["source", identity] = msgspec.json.encode(describe_source(opened))
            snapshots = read_monitors(opened.source)
            if snapshots:
                with contextlib.suppress(RecursionError):  # nested too deeply to be encoded again
                    found["monitor", identity] = _monitor(opened, snapshots)
        return found


def _monitor(opened: OpenSource, snapshots: Sequence[Snapshot]) -> bytes:
    shown = [
        {name: value for name, value in snapshot.items() if name != ROLLOUTS}
        for snapshot in snapshots
    ]
    return msgspec.json.encode({"id": opened.source.id, "snapshots": shown})
