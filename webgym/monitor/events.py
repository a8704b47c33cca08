"""The monitor over HTTP: `GET /monitor.json` and, as server-sent events, `GET /monitor/events`.

The routes are for any aiohttp application; who may ask is its business. Snapshots come from a
`TaskMonitor` in this process or from the file of one elsewhere (`SnapshotFile`).

*Events.* Each change comes as `event: snapshot` with the JSON of a `MonitorSnapshot`, at most once
per `interval`; after the last one comes `event: end`, and the stream is over. A stream ends by
itself after `LONGEST_STREAM` seconds: browsers connect again.

*Bounds.* A snapshot is made once for all clients. There are at most `most_clients` streams; one
whose reader is too slow is cut.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple, Protocol

import msgspec
from aiohttp import web

from webgym.monitor.snapshot import MonitorSnapshot, SnapshotError

JSON_PATH, EVENTS_PATH = "/monitor.json", "/monitor/events"
INTERVAL = 1.0
MOST_CLIENTS = 16
WRITE_SECONDS = 10.0
HEARTBEAT_SECONDS = 15.0
LONGEST_STREAM = 3600.0
RECONNECT_SECONDS = 2
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class Snapshots(Protocol):
    """Where snapshots come from."""

    def snapshot(self) -> MonitorSnapshot | None:
        """The present one; None where there is none yet. It is called in a thread."""


class _Moment(NamedTuple):
    """A snapshot as it is sent. `number` grows with every change."""

    number: int
    body: bytes
    finished: bool


class MonitorEvents:
    """The two handlers, and what they share."""

    def __init__(
        self, source: Snapshots, *, interval: float = INTERVAL, most_clients: int = MOST_CLIENTS
    ) -> None:
        self._source = source
        self._interval = interval
        self._most_clients = most_clients
        self._clients = 0
        self._latest: _Moment | None = None
        self._changes = 0
        self._made: float | None = None
        self._making = asyncio.Lock()

    def routes(self) -> list[web.RouteDef]:
        """To be added to an application."""
        return [web.get(JSON_PATH, self.as_json), web.get(EVENTS_PATH, self.as_events)]

    async def as_json(self, _: web.Request) -> web.StreamResponse:
        """The present snapshot."""
        try:
            moment = await self._moment()
        except (SnapshotError, OSError) as error:
            return _refusal(HTTPStatus.BAD_GATEWAY, f"the monitor cannot be read: {error}")
        if moment is None:
            return _refusal(HTTPStatus.NOT_FOUND, "there is no monitor yet: the run has not begun")
        return web.Response(body=moment.body, content_type="application/json", headers=_HEADERS)

    async def as_events(self, request: web.Request) -> web.StreamResponse:
        """Snapshots as they come, until the run is over or the client leaves."""
        if self._clients >= self._most_clients:
            return _refusal(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{self._clients} clients are watching already: close one, or ask {JSON_PATH}",
            )
        self._clients += 1
        try:
            response = web.StreamResponse(headers=_HEADERS)
            response.content_type = "text/event-stream"
            response.charset = "utf-8"
            await response.prepare(request)
            with contextlib.suppress(ConnectionError, TimeoutError):  # the client is gone
                await self._stream(response.write)
            return response
        finally:
            self._clients -= 1

    async def _stream(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        async def send(data: bytes) -> None:
            async with asyncio.timeout(WRITE_SECONDS):
                await write(data)

        loop = asyncio.get_running_loop()
        end = loop.time() + LONGEST_STREAM
        sent, heard = 0, loop.time()
        await send(f"retry: {1000 * RECONNECT_SECONDS}\n\n".encode())
        while loop.time() < end:
            moment = await self._moment_or_last()
            if moment is not None and moment.number > sent:
                await send(_event("snapshot", moment))
                sent, heard = moment.number, loop.time()
            elif loop.time() - heard >= HEARTBEAT_SECONDS:
                await send(b": nothing new\n\n")
                heard = loop.time()
            if moment is not None and moment.finished:
                await send(b"event: end\ndata: {}\n\n")
                return
            await asyncio.sleep(self._interval)

    async def _moment_or_last(self) -> _Moment | None:
        """A file that cannot be read for a moment is no reason to end a stream."""
        try:
            return await self._moment()
        except (SnapshotError, OSError):
            return self._latest

    async def _moment(self) -> _Moment | None:
        """Made again when the interval is over; all who ask meanwhile get the same one."""
        async with self._making:
            now = asyncio.get_running_loop().time()
            if self._made is None or now - self._made >= self._interval / 2:
                snapshot = await asyncio.to_thread(self._source.snapshot)
                self._made = asyncio.get_running_loop().time()
                self._latest = self._next(snapshot)
            return self._latest

    def _next(self, snapshot: MonitorSnapshot | None) -> _Moment | None:
        if snapshot is None:
            return None
        last, body = self._latest, msgspec.json.encode(snapshot)
        if last is not None and last.body == body:
            return last
        self._changes += 1
        return _Moment(self._changes, body, snapshot.finished)


def monitor_routes(
    source: Snapshots, *, interval: float = INTERVAL, most_clients: int = MOST_CLIENTS
) -> list[web.RouteDef]:
    """The routes that serve a monitor, or the file of one."""
    return MonitorEvents(source, interval=interval, most_clients=most_clients).routes()


def _event(kind: str, moment: _Moment) -> bytes:
    return b"event: %s\nid: %d\ndata: %s\n\n" % (kind.encode(), moment.number, moment.body)


def _refusal(status: HTTPStatus, message: str) -> web.Response:
    body = msgspec.json.encode({"status": "error", "message": message})
    wait = {"Retry-After": str(RECONNECT_SECONDS)} if status >= 500 else {}
    return web.Response(
        body=body, status=status, content_type="application/json", headers={**_HEADERS, **wait}
    )
