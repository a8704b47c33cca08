"""One proxied connection: its SOCKS handshake, then bytes in both directions until both have ended.

Two asyncio protocols write directly into each other's transport, which is the least work that
Python can do per piece of data. When one end cannot accept more, the reading of the other end is
paused. When one end has sent everything, the other is half-closed. Nothing is buffered in between.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from webgym.browser.guard.socks import ConnectionTarget, SocksError, SocksHandshake, SocksReply

if TYPE_CHECKING:
    from webgym.browser.guard.guard import SessionChannel


class SessionTraffic:
    """Counts the bytes of all connections of a session, and limits those of one step.

    Connections update the fields directly for speed: for every piece of data they add its size,
    compare the sum with `limit`, and call `overflow` with their target when it is exceeded.
    """

    __slots__ = ("_step_bytes", "limit", "overflow", "received", "sent")

    def __init__(self, step_bytes: int, overflow: Callable[[ConnectionTarget], None]) -> None:
        self._step_bytes = step_bytes
        self.received = 0
        self.sent = 0
        self.limit = step_bytes
        self.overflow = overflow

    def begin_step(self) -> None:
        """Start a new step with the full number of bytes."""
        self.limit = self.received + self.sent + self._step_bytes

    @property
    def exceeded(self) -> bool:
        return self.received + self.sent > self.limit


class ProxiedConnection(asyncio.Protocol):
    """The end towards the browser, which is opened first and owns the other end."""

    __slots__ = (
        "_deadline",
        "_dialling",
        "_ended",
        "_gone",
        "_handshake",
        "_lost",
        "_owner",
        "_target",
        "_traffic",
        "_upstream",
        "_upstream_ended",
        "_upstream_lost",
        "active",
        "quiet",
        "transport",
    )

    def __init__(self, owner: "SessionChannel", traffic: SessionTraffic) -> None:
        self._owner = owner
        self._traffic = traffic
        self._handshake: SocksHandshake | None = SocksHandshake()
        self._target: ConnectionTarget
        self._dialling: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._upstream: asyncio.Transport | None = None
        self._ended = self._upstream_ended = False
        self._lost = self._gone = False
        self._upstream_lost = True
        self.active = True
        """Whether any bytes moved since this was last set to False."""
        self.quiet = 0
        """How many idle checks in a row found it inactive; the owner counts here."""

    @property
    def half_closed(self) -> bool:
        return self._ended or self._upstream_ended

    @property
    def connected(self) -> bool:
        """Whether the browser got the answer that it is connected."""
        return self._upstream is not None

    def upstream(self) -> asyncio.Protocol:
        """The other end, to be connected. The browser gets its answer when it is."""
        return _Upstream(self, self._traffic, self._target)

    def fail(self, reply: SocksReply) -> None:
        """Answer the browser that the connection failed, and close."""
        self._end_with(reply.wire)

    def abort(self) -> None:
        """Close both ends now, and discard unsent data."""
        self.transport.abort()
        if self._upstream is not None:
            self._upstream.abort()

    # Called by the transport towards the browser.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if not self._owner.admit(self):
            self._gone = True
            self.transport.abort()
            return
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._owner.handshake_seconds, self.abort)

    def data_received(self, data: bytes) -> None:
        upstream = self._upstream
        if upstream is None:
            self._continue_handshake(data)
            return
        traffic = self._traffic
        traffic.sent += len(data)
        if traffic.received + traffic.sent > traffic.limit:
            traffic.overflow(self._target)
            return
        self.active = True
        upstream.write(data)

    def eof_received(self) -> bool:
        self._ended = True
        if self._upstream is None:
            return False
        self._pass_end_to(self._upstream)
        return True

    def pause_writing(self) -> None:
        if self._upstream is not None:
            _pause(self._upstream)

    def resume_writing(self) -> None:
        if self._upstream is not None:
            _resume(self._upstream)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if self._deadline is not None:
            self._deadline.cancel()
        if self._dialling is not None:
            self._dialling.cancel()
        if self._upstream is not None:
            self._upstream.abort()
        self._release_if_gone()

    # Called by the other end.

    def upstream_made(self, upstream: asyncio.Transport) -> None:
        self._upstream, self._upstream_lost = upstream, False
        if self._lost or self.transport.is_closing() or self._traffic.exceeded:
            upstream.abort()
            return
        self.active = True
        self.transport.write(SocksReply.GRANTED.wire)
        _resume(self.transport)
        handshake, self._handshake = self._handshake, None
        if handshake is not None and handshake.rest:
            self.data_received(handshake.rest)

    def upstream_finished(self) -> bool:
        self._upstream_ended = True
        self._pass_end_to(self.transport)
        return True

    def upstream_was_lost(self) -> None:
        self._upstream_lost = True
        self.transport.close()
        self._release_if_gone()

    def _continue_handshake(self, data: bytes) -> None:
        if self._handshake is None or self._dialling is not None:
            self.abort()  # it sent data while its reading was paused
            return
        try:
            answer, target = self._handshake.feed(data)
        except SocksError as error:
            self._end_with(error.answer)
            return
        if answer:
            self.transport.write(answer)
        if target is not None:
            if self._deadline is not None:
                self._deadline.cancel()
            _pause(self.transport)
            self._target = target
            self._dialling = asyncio.get_running_loop().create_task(self._owner.dial(self, target))
            self._dialling.add_done_callback(self._dialled)

    def _dialled(self, dialling: asyncio.Task[None]) -> None:
        if self._upstream is None and not self.transport.is_closing():
            self.transport.abort()
        self._release_if_gone()

    def _end_with(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()

    def _pass_end_to(self, transport: asyncio.Transport) -> None:
        if self._ended and self._upstream_ended:
            self.transport.close()
            if self._upstream is not None:
                self._upstream.close()
        elif not transport.is_closing() and transport.can_write_eof():
            transport.write_eof()

    def _release_if_gone(self) -> None:
        dialled = self._dialling is None or self._dialling.done()
        if self._lost and self._upstream_lost and dialled and not self._gone:
            self._gone = True
            self._owner.release(self)


class _Upstream(asyncio.Protocol):
    """The end towards the site."""

    __slots__ = ("_client", "_connection", "_target", "_traffic")

    def __init__(
        self, connection: ProxiedConnection, traffic: SessionTraffic, target: ConnectionTarget
    ) -> None:
        self._connection = connection
        self._client = connection.transport
        self._traffic = traffic
        self._target = target

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.upstream_made(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        traffic = self._traffic
        traffic.received += len(data)
        if traffic.received + traffic.sent > traffic.limit:
            traffic.overflow(self._target)
            return
        self._connection.active = True
        self._client.write(data)

    def eof_received(self) -> bool:
        return self._connection.upstream_finished()

    def pause_writing(self) -> None:
        _pause(self._client)

    def resume_writing(self) -> None:
        _resume(self._client)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.upstream_was_lost()


def _pause(transport: asyncio.Transport) -> None:
    if not transport.is_closing():
        transport.pause_reading()


def _resume(transport: asyncio.Transport) -> None:
    if not transport.is_closing():
        transport.resume_reading()
