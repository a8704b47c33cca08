"""A session's way into the network: a proxy of its own, with its own bounds and its own record.

The proxy listens on a port of 127.0.0.1 that only this session's browser context is told. Another
program on this machine could find the port and use it. It would get no further than a page does,
which is less than it can do without, but it could spend the session's bytes: do not share the
machine of a node with programs that you do not trust.
"""

import asyncio
from collections.abc import Callable

from rollgym.servers.limit import Limit
from webgym.browser.guard.connection import Connection
from webgym.browser.guard.dialling import DialError, Dialler
from webgym.browser.guard.limits import MEBIBYTE, GuardLimits
from webgym.browser.guard.missed import Missed, MissedLog
from webgym.browser.guard.socks import Reply, Target
from webgym.browser.guard.traffic import Traffic
from webgym.browser.guard.urls import check_navigation

HOST = "127.0.0.1"
LOOKS_PER_IDLE_TIME = 10
CLOSING_SECONDS = 5.0
BACKLOG = 256


class SessionChannel:
    """The network of one session. Made by `NetworkGuard.open_channel`."""

    def __init__(
        self, dialler: Dialler, limits: GuardLimits, on_closed: Callable[["SessionChannel"], None]
    ) -> None:
        self._dialler = dialler
        self._limits = limits
        self._on_closed = on_closed
        self._traffic = Traffic(limits.step_bytes, self._cut)
        self._refusals = MissedLog(limits.remembered)
        self._failures = MissedLog(limits.remembered)
        self._connections: set[Connection] = set()
        self._empty = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._look: asyncio.TimerHandle | None = None
        self._closed = False
        self.handshake_seconds = limits.handshake_seconds
        self.port = 0

    @property
    def proxy_server(self) -> str:
        """For the `proxyServer` of the session's browser context."""
        return f"socks5://{HOST}:{self.port}"

    @property
    def refusals(self) -> list[Missed]:
        """What the rules refused, latest last, each once; those not taken yet."""
        return self._refusals.seen()

    @property
    def bytes_received(self) -> int:
        return self._traffic.received

    @property
    def bytes_sent(self) -> int:
        return self._traffic.sent

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    def take_refusals(self) -> list[Missed]:
        """What the rules refused since this was last called, latest last, each once."""
        return self._refusals.take()

    def take_failures(self) -> list[Missed]:
        """What was allowed and could not be reached: names without address, closed ports…"""
        return self._failures.take()

    def check_navigation(self, url: str) -> str:
        """The URL to open. Raises NavigationRefusedError with the reason."""
        return check_navigation(url, self._dialler.rules)

    def begin_step(self) -> None:
        """Give the pages of the session the bytes of a new step."""
        self._traffic.begin_step()

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self, self._traffic), HOST, 0, backlog=BACKLOG
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self._look_for_idle()

    async def close(self) -> None:
        """End every connection and stop listening. Can be called more than once."""
        if self._closed:
            return
        self._closed = True
        if self._look is not None:
            self._look.cancel()
        if self._server is not None:
            self._server.close()
        self._on_closed(self)
        self._abort_all()
        with Limit(CLOSING_SECONDS):
            while self._connections:
                self._empty.clear()
                await self._empty.wait()
            if self._server is not None:
                await self._server.wait_closed()

    def admit(self, connection: Connection) -> bool:
        """For its connections only."""
        if self._closed:
            return False
        if len(self._connections) >= self._limits.connections:
            most = self._limits.connections
            self._refusals.note(Missed("*", 0, f"more than {most} connections at once"))
            return False
        self._connections.add(connection)
        return True

    def release(self, connection: Connection) -> None:
        """For its connections only."""
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    async def dial(self, connection: Connection, target: Target) -> None:
        """For its connections only."""
        if self._traffic.overflown:
            self._refuse(target, self._too_large)
            connection.fail(Reply.NOT_ALLOWED)
            return
        try:
            await self._dialler.dial(target, connection)
        except DialError as error:
            if error.reply is Reply.NOT_ALLOWED:
                self._refuse(target, error.reason)
            else:
                self._failures.note(Missed(str(target.host), target.port, error.reason))
            connection.fail(error.reply)

    def _refuse(self, target: Target, reason: str) -> None:
        self._refusals.note(Missed(str(target.host), target.port, reason))

    @property
    def _too_large(self) -> str:
        return f"page too large: more than {self._limits.step_bytes / MEBIBYTE:g} MiB in one step"

    def _cut(self, target: Target) -> None:
        """The pages moved too much: end what they have open. New ones wait for the next step."""
        self._refuse(target, self._too_large)
        self._abort_all()

    def _abort_all(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    def _look_for_idle(self) -> None:
        interval = self._limits.idle_seconds / LOOKS_PER_IDLE_TIME
        for connection in list(self._connections):
            connection.quiet = 0 if connection.active else connection.quiet + 1
            connection.active = False
            patience = 1 if connection.half_closed else LOOKS_PER_IDLE_TIME
            if connection.quiet >= patience:
                connection.abort()
        self._look = asyncio.get_running_loop().call_later(interval, self._look_for_idle)
