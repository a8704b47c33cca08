"""The connection to one Chromium: the DevTools protocol over a pair of pipes.

Messages are JSON, each ended by a NUL byte. A call carries a number, and its answer carries the
same one; events have none. Both may belong to a DevTools session (`sessionId`), so one pipe serves
many pages. Only the envelope of a message is decoded here. The body stays `msgspec.Raw` until a
listener decodes it, so an event without a listener costs next to nothing.

A pipe is used rather than a port: no other process can connect to it, no page can reach it, and
Chromium exits by itself when our end closes.

Messages quote text of pages, which may hold half of a surrogate pair. That is invalid JSON text, so
such halves are replaced. A message that cannot be read even then is skipped and logged: one page
must not break the connection that all pages share.
"""

import asyncio
import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from rollgym.servers.limit import Limit

Listener = Callable[[str, msgspec.Raw], None]

MAX_UNSENT = 64 * 2**20
"""Bytes that may wait for a Chromium that does not read; with more, it counts as hung."""
MAX_MESSAGE = 256 * 2**20

_HIGH_HALF, _LOW_HALF = rb"u[dD][89abAB][0-9a-fA-F]{2}", rb"u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPES = re.compile(rb"\\(?:%b\\%b|(%b|%b)|.)" % (_HIGH_HALF, _LOW_HALF, _HIGH_HALF, _LOW_HALF))
"""Matches every escape, so that none is mistaken for the end of another; group 1 is a half."""

_logger = logging.getLogger(__name__)


class CallError(Exception):
    """Chromium answered a call with an error."""

    def __init__(self, method: str, message: str) -> None:
        super().__init__(f"{method}: {message}")
        self.method = method
        self.message = message


class ConnectionClosedError(Exception):
    """The pipe was closed: the browser has ended."""


class _CallFailure(msgspec.Struct):
    message: str
    data: str | None = None


class _Envelope(msgspec.Struct):
    id: int | None = None
    method: str = ""
    sessionId: str | None = None  # noqa: N815 - as on the wire
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw = msgspec.Raw(b"{}")
    error: _CallFailure | None = None


class _OutgoingCall(msgspec.Struct, omit_defaults=True):
    id: int
    method: str
    params: Mapping[str, object]
    sessionId: str | None = None  # noqa: N815 - as on the wire


class _PendingCall(NamedTuple):
    method: str
    session: str | None
    answer: asyncio.Future[msgspec.Raw]


class DevToolsConnection:
    """The pipe of one Chromium: `open` it, then `close` it. `closed` is done when it has ended."""

    def __init__(self, incoming_fd: int, outgoing_fd: int) -> None:
        self._fds: tuple[int, ...] = (incoming_fd, outgoing_fd)
        self.received = 0
        """How many messages have come from the browser."""
        self._number = 0
        self._pending: dict[int, _PendingCall] = {}
        self._late: dict[int, Callable[[msgspec.Raw], None]] = {}
        self._listeners: dict[str | None, Listener] = {}
        self._decode = msgspec.json.Decoder(_Envelope).decode
        self._encode = msgspec.json.Encoder().encode
        self._incoming: asyncio.ReadTransport | None = None
        self._outgoing: asyncio.WriteTransport | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self) -> None:
        """Start to read. Owns the file descriptors from now on, even when it fails."""
        loop = asyncio.get_running_loop()
        incoming, outgoing = (
            os.fdopen(fd, mode, buffering=0)
            for fd, mode in zip(self._fds, ("rb", "wb"), strict=True)
        )
        self._fds = ()
        try:
            self._incoming, _ = await loop.connect_read_pipe(
                lambda: _MessageReader(self._receive, self.close), incoming
            )
            self._outgoing, _ = await loop.connect_write_pipe(
                lambda: _EndWatcher(self.close), outgoing
            )
        except BaseException:
            self.close()
            for file in (incoming, outgoing):
                file.close()
            raise
        self._outgoing.set_write_buffer_limits(high=MAX_UNSENT)

    async def call(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        session: str | None = None,
        deadline: float,
        late: Callable[[msgspec.Raw], None] | None = None,
    ) -> msgspec.Raw:
        """The result of a call. `late` is called with a result that comes after the caller gave up.

        Raises CallError if Chromium answers with an error, ConnectionClosedError if the browser has
        ended or ends meanwhile, TimeoutError at the deadline.
        """
        number = self._write(method, params, session)
        answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._pending[number] = _PendingCall(method, session, answer)
        try:
            with Limit(max(0.0, deadline - asyncio.get_running_loop().time())):
                return await answer
        finally:
            self._pending.pop(number, None)
            if late is not None and not _has_ended(answer) and not self.closed.done():
                self._late[number] = late

    def send(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        session: str | None = None,
    ) -> None:
        """A call without waiting for its answer. Does nothing after the browser has ended."""
        if not self.closed.done():
            self._write(method, params, session)

    def listen(self, session: str | None, listener: Listener) -> None:
        """Call the listener for the events of this session (None: those of the browser itself)."""
        self._listeners[session] = listener

    def unlisten(self, session: str | None) -> None:
        self._listeners.pop(session, None)

    def fail(self, session: str, error: Exception) -> None:
        """Let the pending calls of this session raise the error at once."""
        for pending in list(self._pending.values()):
            if pending.session == session and not pending.answer.done():
                pending.answer.set_exception(error)

    def close(self) -> None:
        """Close the pipe. Pending calls raise ConnectionClosedError."""
        incoming, self._incoming = self._incoming, None
        outgoing, self._outgoing = self._outgoing, None
        if incoming is not None:
            incoming.close()
        if outgoing is not None and not outgoing.is_closing():
            outgoing.abort()
        for fd in self._fds:
            os.close(fd)
        self._fds = ()
        self._end()

    def _write(self, method: str, params: Mapping[str, object] | None, session: str | None) -> int:
        if self._outgoing is None or self.closed.done():
            raise ConnectionClosedError(f"{method}: the browser has ended")
        if self._outgoing.get_write_buffer_size() > MAX_UNSENT:
            self.close()
            raise ConnectionClosedError(f"{method}: the browser no longer reads its messages")
        self._number += 1
        call = _OutgoingCall(self._number, method, params or {}, session)
        self._outgoing.write(self._encode(call) + b"\0")
        return self._number

    def _receive(self, message: bytes) -> None:
        self.received += 1
        envelope = self._read(message)
        if envelope is None:
            return
        if envelope.id is None:
            listener = self._listeners.get(envelope.sessionId)
            if listener is not None:
                self._notify(listener, envelope)
            return
        pending = self._pending.get(envelope.id)
        if pending is None or pending.answer.done():
            late = self._late.pop(envelope.id, None)
            if late is not None and envelope.error is None:
                late(envelope.result)
            return
        if envelope.error is not None:
            detail = f" ({envelope.error.data})" if envelope.error.data else ""
            error = CallError(pending.method, envelope.error.message + detail)
            pending.answer.set_exception(error)
        else:
            pending.answer.set_result(envelope.result)

    def _read(self, message: bytes) -> _Envelope | None:
        try:
            return self._decode(message)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        try:
            return self._decode(_ESCAPES.sub(_whole_text, message))
        except (msgspec.DecodeError, UnicodeDecodeError):
            _logger.exception("skipped a browser message that cannot be read: %r", message[:500])
            return None

    def _notify(self, listener: Listener, envelope: _Envelope) -> None:
        try:
            listener(envelope.method, envelope.params)
        except Exception:
            # The listener of one session must not break the connection that the others share.
            _logger.exception("the listener failed on the event %s", envelope.method)

    def _end(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        for pending in self._pending.values():
            if not pending.answer.done():
                gone = ConnectionClosedError(f"{pending.method}: the browser has ended")
                pending.answer.set_exception(gone)
        self._pending.clear()
        self._late.clear()


def _has_ended(answer: "asyncio.Future[msgspec.Raw]") -> bool:
    """Whether it has a result or an error, and was not cancelled by its caller."""
    return answer.done() and not answer.cancelled()


def _whole_text(escape: re.Match[bytes]) -> bytes:
    """The replacement character for half of a pair; every other escape unchanged."""
    return escape[0] if escape[1] is None else rb"\ufffd"


class _MessageReader(asyncio.Protocol):
    """Splits the incoming bytes into messages."""

    def __init__(self, receive: Callable[[bytes], None], close: Callable[[], None]) -> None:
        self._receive = receive
        self._close = close
        self._parts: list[bytes] = []
        self._size = 0
        self._skips = False

    def data_received(self, data: bytes) -> None:
        *ended, rest = data.split(b"\0")
        for part in ended:
            if self._skips:
                self._skips = False
                continue
            if self._parts:
                self._parts.append(part)
                message = b"".join(self._parts)
                self._parts.clear()
                self._size = 0
            else:
                message = part
            self._receive(message)
        if rest and not self._skips:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > MAX_MESSAGE:
                _logger.error("skipped a message of over %d bytes from the browser", MAX_MESSAGE)
                self._parts.clear()
                self._size, self._skips = 0, True

    def connection_lost(self, error: Exception | None) -> None:
        self._close()


class _EndWatcher(asyncio.BaseProtocol):
    """Notices that Chromium closed its end."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close

    def connection_lost(self, error: Exception | None) -> None:
        self._close()
