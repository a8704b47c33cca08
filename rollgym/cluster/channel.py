"""A connection that carries messages: many in flight, both ways, in order.

*Writing.* What is sent in one turn of the event loop goes out in one `write`, or in several where
these are many messages: a worker may end all its attempts in one long turn, and the driver records
the first of them and sends others meanwhile. A message is never refused: attempts in flight bound
what waits here, and the calls of a worker wait for their answers. Only notes may be dropped, when
the other side is too slow for them.

*Ending.* `lost` is called once, with the reason, after the last message has been received.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import cast

import msgspec

from rollgym.cluster.messages import (
    DECODER,
    ENCODER,
    FRAME_LIMIT,
    HEADER_SIZE,
    HELLO_LIMIT,
    LENGTH,
    Message,
    Note,
    ProtocolError,
)

BACKLOG_LIMIT = 1 << 24
"""The bytes that may wait for the other side before notes are dropped."""
MOST_UNSENT = 16
"""The most messages that wait for the end of a turn. Fewer would cost more system calls."""
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))


class Channel(asyncio.Protocol):
    """One end of a connection. `receive` gets every message; it raises ProtocolError to close.

    `receive` and `lost` may be replaced when it is known who the other side is. Until `trust` is
    called, only short messages are accepted.
    """

    def __init__(
        self,
        receive: Callable[["Channel", Message], None],
        lost: Callable[["Channel", str], None],
    ) -> None:
        self.dropped = 0
        self.receive = receive
        self.lost = lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._needed = 0
        self._unsent: list[bytes] = []
        self._flushes_soon = False
        self._limit = HELLO_LIMIT
        self._reason = ""
        self._closed = False

    def trust(self) -> None:
        """Accept messages of any length."""
        self._limit = FRAME_LIMIT

    def send(self, message: Message) -> None:
        """Send a message with others of this turn. Raises ValueError for one too long."""
        if self._closed:
            return
        body = ENCODER.encode(message)
        if len(body) > FRAME_LIMIT:
            raise ValueError(f"{len(body)} bytes are more than the limit of {FRAME_LIMIT}")
        if not self._flushes_soon:
            self._flushes_soon = True
            self._loop.call_soon(self._end_turn)
        self._unsent += (LENGTH.pack(len(body)), body)
        if len(self._unsent) >= 2 * MOST_UNSENT:
            self._flush()

    def note(self, topic: str, body: bytes) -> None:
        """Send a note, unless too much waits to be sent."""
        if self._transport is None or self._transport.get_write_buffer_size() > BACKLOG_LIMIT:
            self.dropped += 1
        else:
            self.send(Note(topic, body))

    def close(self, reason: str = "") -> None:
        """Send what waits, and close."""
        self._reason = self._reason or reason
        self._flush()
        self._closed = True
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close at once."""
        self._reason = self._reason or reason
        self._closed = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # Otherwise uvloop writes at the end of a turn.
        self._transport.set_write_buffer_limits(high=0)
        _notice_lost_machines(transport.get_extra_info("socket"))
        self._flush()

    def data_received(self, data: bytes) -> None:
        whole: bytes | bytearray = data
        if self._received:
            self._received += data
            if len(self._received) < self._needed:
                return
            whole, self._received = self._received, bytearray()
        start, end = 0, len(whole)
        view = memoryview(whole)
        self._needed = 0
        try:
            while end - start >= HEADER_SIZE:
                (size,) = LENGTH.unpack_from(whole, start)
                if size > self._limit:
                    self.abort(f"it announced a message of {size} bytes")
                    return
                body = start + HEADER_SIZE
                if end - body < size:
                    self._needed = HEADER_SIZE + size
                    break
                start = body + size
                self.receive(self, DECODER.decode(view[body:start]))
        except (msgspec.MsgspecError, ProtocolError) as error:
            self.abort(f"it did not follow the protocol: {error}")
            return
        if start < end:
            self._received += view[start:]

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed, self._transport = True, None
        reason = f"the connection broke ({exc})" if exc else "the connection was closed"
        self.lost(self, self._reason or reason)

    def _end_turn(self) -> None:
        self._flushes_soon = False
        self._flush()

    def _flush(self) -> None:
        if self._unsent and self._transport is not None:
            unsent, self._unsent = self._unsent, []
            self._transport.write(b"".join(unsent))


def _notice_lost_machines(connected: socket.socket | None) -> None:
    """Let the system probe an idle connection: a machine that loses power does not close it."""
    if connected is None or connected.family == socket.AF_UNIX:
        return
    with contextlib.suppress(OSError):  # not on every platform
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
