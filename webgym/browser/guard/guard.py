"""The network guard of a node: all traffic of a session goes through it.

Each session's browser context has its own SOCKS proxy in this process, a `SessionChannel`. Browsers
give such a proxy unresolved names. The guard resolves a name, checks all of its addresses, and
connects to the checked addresses, directly or through the upstream proxy of the session. So the
rules hold alike for navigations, redirects, images, frames, workers and WebSockets, since all of
them are connections, and a name cannot change its address between the check and the use.

    guard = NetworkGuard(NetworkRules.parse(["127.0.0.1:8000"]))
    channel = await guard.open_channel()
    …  # a browser context with `channel.proxy_server`; `GUARDED_FLAGS` for the browser
    await channel.close()
    await guard.close()

The proxy listens on a port of 127.0.0.1 that only the browser context of the session knows. Another
program on this machine could find the port and use it. It could connect only where a page can, but
it could use up the bytes of the session: do not run untrusted programs on the machine of a node.
"""

import asyncio
from collections.abc import Callable
from ipaddress import IPv4Address

import msgspec

from rollgym.servers.limit import Limit
from webgym.browser.contract.profile import UpstreamProxy
from webgym.browser.guard.connection import ProxiedConnection, SessionTraffic
from webgym.browser.guard.dialler import (
    MEBIBYTE,
    Connect,
    DialError,
    Dialler,
    GuardLimits,
    connect_directly,
)
from webgym.browser.guard.proxies import UpstreamProxies
from webgym.browser.guard.resolver import CachingResolver, HostResolver, SystemResolver
from webgym.browser.guard.rules import ForbiddenEndpoint, NetworkRules, check_navigation
from webgym.browser.guard.socks import ConnectionTarget, SocksReply


class FailedTarget(msgspec.Struct, frozen=True):
    """A target that was rejected or not reached, and why. Host `*`: it was not known yet."""

    host: str
    port: int
    reason: str


class FailedTargetLog:
    """The latest failed targets. A target that a page requests repeatedly is kept once."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.targets: dict[FailedTarget, None] = {}

    def note(self, target: FailedTarget) -> None:
        self.targets.pop(target, None)
        self.targets[target] = None
        if len(self.targets) > self._size:
            del self.targets[next(iter(self.targets))]

    def take(self) -> list[FailedTarget]:
        """All targets since the last call, oldest first."""
        taken = list(self.targets)
        self.targets.clear()
        return taken


PROXY_BYPASS = "<-loopback>"
"""The bypass list of a session's context. By default, browsers bypass proxies for loopback."""

GUARDED_FLAGS = (
    # The context of each session has its proxy. These flags close what no proxy covers: WebRTC,
    # which sends datagrams directly and resolves names itself, and the browser's own traffic
    # outside of sessions, which is sent to a proxy that does not exist.
    # chromium-headless-shell reads the first, Chromium and Chrome the second.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--proxy-server=socks5://127.0.0.1:1",
    f"--proxy-bypass-list={PROXY_BYPASS}",
    "--disable-quic",
)


HOST = "127.0.0.1"
IDLE_CHECKS = 10
CLOSING_SECONDS = 5.0
BACKLOG = 256


class SessionChannel:
    """The network of one session: its proxy, its limits, and the targets that failed."""

    def __init__(
        self, dialler: Dialler, limits: GuardLimits, on_closed: Callable[["SessionChannel"], None]
    ) -> None:
        self._dialler = dialler
        self._limits = limits
        self._on_closed = on_closed
        self.traffic = SessionTraffic(limits.step_bytes, self._stop_traffic)
        self.rejections = FailedTargetLog(limits.remembered)
        self.failures = FailedTargetLog(limits.remembered)
        """Targets that were allowed but not reached: names without address, closed ports…"""
        self.connections: set[ProxiedConnection] = set()
        self._empty = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._idle_check: asyncio.TimerHandle | None = None
        self._closed = False
        self.handshake_seconds = limits.handshake_seconds
        self.port = 0

    @property
    def proxy_server(self) -> str:
        """For the `proxyServer` of the session's browser context."""
        return f"socks5://{HOST}:{self.port}"

    def check_navigation(self, url: str) -> str:
        """The URL to open. Raises NavigationRefusedError with the reason."""
        return check_navigation(url, self._dialler.current_rules())

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: ProxiedConnection(self, self.traffic), HOST, 0, backlog=BACKLOG
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self._check_for_idle()

    async def close(self) -> None:
        """Close every connection and stop listening. Can be called more than once."""
        if self._closed:
            return
        self._closed = True
        if self._idle_check is not None:
            self._idle_check.cancel()
        if self._server is not None:
            self._server.close()
        self._on_closed(self)
        self._abort_all()
        with Limit(CLOSING_SECONDS):
            while self.connections:
                self._empty.clear()
                await self._empty.wait()
            if self._server is not None:
                await self._server.wait_closed()

    def admit(self, connection: ProxiedConnection) -> bool:
        """For connections only: accept or reject one. An accepted one is released at its end."""
        if self._closed:
            return False
        if len(self.connections) >= self._limits.connections:
            most = self._limits.connections
            self.rejections.note(FailedTarget("*", 0, f"more than {most} connections at once"))
            return False
        self.connections.add(connection)
        return True

    def release(self, connection: ProxiedConnection) -> None:
        """For connections only: both ends are closed."""
        self.connections.discard(connection)
        if not self.connections:
            self._empty.set()

    async def dial(self, connection: ProxiedConnection, target: ConnectionTarget) -> None:
        """For connections only: connect `connection.upstream`, or call `connection.fail`."""
        if self.traffic.exceeded:
            self._reject(target, self._too_large)
            connection.fail(SocksReply.NOT_ALLOWED)
            return
        try:
            await self._dialler.dial(target, connection)
        except DialError as error:
            if error.reply is SocksReply.NOT_ALLOWED:
                self._reject(target, error.reason)
            else:
                self.failures.note(FailedTarget(str(target.host), target.port, error.reason))
            connection.fail(error.reply)

    def _reject(self, target: ConnectionTarget, reason: str) -> None:
        self.rejections.note(FailedTarget(str(target.host), target.port, reason))

    @property
    def _too_large(self) -> str:
        return f"page too large: more than {self._limits.step_bytes / MEBIBYTE:g} MiB in one step"

    def _stop_traffic(self, target: ConnectionTarget) -> None:
        """Close all connections, because the step exceeded its bytes; new ones are rejected."""
        self._reject(target, self._too_large)
        self._abort_all()

    def _abort_all(self) -> None:
        for connection in list(self.connections):
            connection.abort()

    def _check_for_idle(self) -> None:
        interval = self._limits.idle_seconds / IDLE_CHECKS
        for connection in list(self.connections):
            connection.quiet = 0 if connection.active else connection.quiet + 1
            connection.active = False
            checks = 1 if connection.half_closed else IDLE_CHECKS
            if connection.quiet >= checks:
                connection.abort()
        self._idle_check = asyncio.get_running_loop().call_later(interval, self._check_for_idle)


class NetworkGuard:
    """Opens channels for sessions, all under the same rules. Needs a running event loop."""

    def __init__(
        self,
        rules: NetworkRules,
        resolver: HostResolver | None = None,
        *,
        connect: Connect = connect_directly,
        limits: GuardLimits | None = None,
        proxy_rules: NetworkRules | None = None,
    ) -> None:
        """`proxy_rules` decide which proxies sessions may use; by default public ones."""
        self.rules = rules
        """The rules in force now, which also forbid the ports of open channels."""
        self._resolver = resolver or CachingResolver(SystemResolver())
        proxies = proxy_rules or NetworkRules()
        self._proxies = UpstreamProxies(
            lambda: proxies.forbidding(*self.rules.forbidden), self._resolver
        )
        self._connect = connect
        self._limits = limits or GuardLimits()
        self._channels: set[SessionChannel] = set()

    async def open_channel(self, proxy: UpstreamProxy | None = None) -> SessionChannel:
        """A channel for a new session, through a proxy if it has one. The caller closes it.

        Raises BadRequestError if the proxy is not allowed or unknown.
        """
        connect = self._connect
        if proxy is not None:
            connect = await self._proxies.connect_through(proxy)
        dialler = Dialler(lambda: self.rules, self._resolver, connect, self._limits)
        channel = SessionChannel(dialler, self._limits, self._forget)
        await channel.open()
        self._channels.add(channel)
        self.rules = self.rules.forbidding(_endpoint(channel))
        return channel

    async def close(self) -> None:
        """Close all channels that are still open, then the resolver."""
        for channel in list(self._channels):
            await channel.close()
        await self._resolver.close()

    def _forget(self, channel: SessionChannel) -> None:
        self._channels.discard(channel)
        self.rules = self.rules.without_forbidding(_endpoint(channel))


def _endpoint(channel: SessionChannel) -> ForbiddenEndpoint:
    return ForbiddenEndpoint(IPv4Address(HOST), channel.port)
