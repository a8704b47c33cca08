"""Recordings of a session for people, where its profile asks for them: a HAR and a video.

*The HAR* (HTTP Archive 1.2) lists the requests of all tabs with their headers and times, without
bodies. *The video* is an animated WebP, which every browser shows: the current tab is captured
twice a second, less often on a busy machine, and frames that do not differ are kept once. Both are
bounded; what is beyond is left out.
"""

import asyncio
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

import msgspec

from webgym.browser.chromium.connection import CallError, ConnectionClosedError
from webgym.browser.contract.errors import CommandError
from webgym.browser.page.elements import DocumentGoneError
from webgym.browser.page.tab import Tab

MOST_REQUESTS = 5000
FRAME_SECONDS = 0.5
PAUSE_PER_CAPTURE = 9
"""A frame that took long is followed by a pause of this many times as long. So a recording uses a
tenth of the time of its session at most, also where many are recorded on a busy machine."""
CAPTURE_SECONDS = 3.0
LARGEST_VIDEO = 32 * 2**20
QUALITY = 60
_CAPTURE: dict[str, object] = {"format": "webp", "quality": QUALITY, "optimizeForSpeed": True}
_FRAME_CHUNKS = (b"ALPH", b"VP8 ", b"VP8L")
_ANIMATED, _WITH_ALPHA = 0x02, 0x10


class _HarRequest(msgspec.Struct):
    url: str
    method: str = "GET"
    headers: dict[str, str] = {}


class _HarResponse(msgspec.Struct, rename="camel"):
    status: int = 0
    status_text: str = ""
    mime_type: str = ""
    protocol: str = ""
    headers: dict[str, str] = {}


class _HarEvent(msgspec.Struct, rename="camel"):
    request_id: str
    timestamp: float = 0
    wall_time: float = 0
    request: _HarRequest | None = None
    response: _HarResponse | None = None
    redirect_response: _HarResponse | None = None
    error_text: str = ""


_READ_EVENT = msgspec.json.Decoder(_HarEvent).decode


class HarRecorder:
    """The requests of one session. `handle_event` gets the events of all its tabs."""

    def __init__(self) -> None:
        self._entries: list[dict[str, object]] = []
        self._running: dict[str, tuple[float, dict[str, object]]] = {}

    def handle_event(self, method: str, params: msgspec.Raw) -> None:
        match method:
            case "Network.requestWillBeSent":
                self._began(_READ_EVENT(params))
            case "Network.responseReceived":
                event = _READ_EVENT(params)
                self._answered(event, event.response)
            case "Network.loadingFinished" | "Network.loadingFailed":
                self._ended(_READ_EVENT(params))

    def har(self) -> bytes:
        """The archive so far."""
        creator = {"name": "rollgym", "version": "1"}
        return msgspec.json.encode(
            {"log": {"version": "1.2", "creator": creator, "pages": [], "entries": self._entries}}
        )

    def _began(self, event: _HarEvent) -> None:
        if event.redirect_response is not None:
            self._answered(event, event.redirect_response)
            self._ended(event)
        request = event.request
        if request is None or len(self._entries) >= MOST_REQUESTS:
            return
        url = request.url[:4000]
        entry: dict[str, object] = {
            "startedDateTime": datetime.fromtimestamp(event.wall_time, UTC).isoformat(),
            "time": -1,
            "request": {
                "method": request.method,
                "url": url,
                "httpVersion": "",
                "cookies": [],
                "headers": _pairs(request.headers.items()),
                "queryString": _pairs(parse_qsl(urlsplit(url).query)),
                "headersSize": -1,
                "bodySize": -1,
            },
            "response": _response(_HarResponse()),
            "cache": {},
            "timings": {"send": -1, "wait": -1, "receive": -1},
        }
        self._entries.append(entry)
        self._running[event.request_id] = event.timestamp, entry

    def _answered(self, event: _HarEvent, response: _HarResponse | None) -> None:
        began = self._running.get(event.request_id)
        if began is not None and response is not None:
            began[1]["response"] = _response(response)

    def _ended(self, event: _HarEvent) -> None:
        began = self._running.pop(event.request_id, None)
        if began is None:
            return
        since, entry = began
        milliseconds = round(max(0.0, event.timestamp - since) * 1000, 3)
        entry["time"] = milliseconds
        entry["timings"] = {"send": 0, "wait": milliseconds, "receive": 0}
        if event.error_text:
            entry["_error"] = event.error_text[:500]


def _response(response: _HarResponse) -> dict[str, object]:
    return {
        "status": response.status,
        "statusText": response.status_text,
        "httpVersion": response.protocol,
        "cookies": [],
        "headers": _pairs(response.headers.items()),
        "content": {"size": -1, "mimeType": response.mime_type},
        "redirectURL": response.headers.get("location", response.headers.get("Location", "")),
        "headersSize": -1,
        "bodySize": -1,
    }


def _pairs(items: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name[:1000], "value": value[:10_000]} for name, value in items]


class _VideoFrame(msgspec.Struct):
    data: bytes


_READ_CAPTURED = msgspec.json.Decoder(_VideoFrame).decode


class VideoRecorder:
    """The frames of one session, captured by a task of its own until `close`."""

    def __init__(self, current: Callable[[], Tab | None], width: int, height: int) -> None:
        self._current = current
        self._size = width, height
        self._frames: list[tuple[bytes, float]] = []
        self._bytes = 0
        self._last_at = 0.0
        self._task = asyncio.ensure_future(self._record())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    async def video(self) -> bytes:
        """The animated WebP so far, with the page as it is now."""
        await self._capture()
        frames = [*self._frames]
        return await asyncio.to_thread(animated_webp, frames, self._size)

    async def _record(self) -> None:
        now = asyncio.get_running_loop().time
        while True:
            began = now()
            await self._capture()
            await asyncio.sleep(max(FRAME_SECONDS, PAUSE_PER_CAPTURE * (now() - began)))

    async def _capture(self) -> None:
        tab, now = self._current(), asyncio.get_running_loop().time()
        if tab is None or tab.is_over or self._bytes > LARGEST_VIDEO:
            return
        answer: msgspec.Raw | None = None
        # A page that cannot be captured now is captured at the next frame.
        with suppress(
            TimeoutError, CallError, ConnectionClosedError, CommandError, DocumentGoneError
        ):
            answer = await tab.call(
                "Page.captureScreenshot", _CAPTURE, deadline=now + CAPTURE_SECONDS
            )
        if answer is None:
            return
        frame = _READ_CAPTURED(answer).data
        if self._frames:
            before, _ = self._frames[-1]
            self._frames[-1] = before, now - self._last_at
            if before == frame:
                return
        self._frames.append((frame, FRAME_SECONDS))
        self._bytes += len(frame)
        self._last_at = now


def animated_webp(frames: list[tuple[bytes, float]], size: tuple[int, int]) -> bytes:
    """One animated WebP of single ones, each with its seconds."""
    flags, body = _ANIMATED, b""
    parts = []
    for frame, seconds in frames:
        chunks = [(kind, data) for kind, data in _chunks(frame) if kind in _FRAME_CHUNKS]
        if any(kind != b"VP8 " for kind, _ in chunks):
            flags |= _WITH_ALPHA
        milliseconds = max(1, min(round(seconds * 1000), 2**24 - 1))
        header = bytes(6) + _size24(size) + milliseconds.to_bytes(3, "little") + b"\x02"
        parts.append(_chunk(b"ANMF", header + b"".join(_chunk(*each) for each in chunks)))
    extended = bytes((flags, 0, 0, 0)) + _size24(size)
    body = _chunk(b"VP8X", extended) + _chunk(b"ANIM", bytes(6)) + b"".join(parts)
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


def _size24(size: tuple[int, int]) -> bytes:
    return b"".join((each - 1).to_bytes(3, "little") for each in size)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


def _chunks(webp: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 12
    while at + 8 <= len(webp):
        (length,) = struct.unpack_from("<I", webp, at + 4)
        yield webp[at : at + 4], webp[at + 8 : at + 8 + length]
        at += 8 + length + length % 2
