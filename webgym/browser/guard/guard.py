"""The network guard of a node: everything a session sends goes through it.

Each session's browser context has a SOCKS proxy of its own in this process. Browsers hand such a
proxy the names they want, unresolved. The guard resolves a name, judges every address it has, and
connects to those it judged; so what the rules refuse is refused to navigations, redirects, images,
frames, workers and WebSockets alike, since all of them are connections, and no name can change its
mind between the check and the use.

    guard = NetworkGuard(NetworkRules.parse(["127.0.0.1:8000"]))
    channel = await guard.open_channel()
    …  # a browser context with `channel.proxy_server`; `flags.GUARDED_FLAGS` for the browser
    await channel.close()
    await guard.close()
"""

from ipaddress import IPv4Address

from webgym.browser.guard.cache import CachingResolver
from webgym.browser.guard.channel import HOST, SessionChannel
from webgym.browser.guard.dialling import Connect, Dialler, connect_directly
from webgym.browser.guard.limits import GuardLimits
from webgym.browser.guard.resolver import Resolver, SystemResolver
from webgym.browser.guard.rules import Endpoint, NetworkRules


class NetworkGuard:
    """Opens channels for sessions, all under the same rules. Made inside a running event loop."""

    def __init__(
        self,
        rules: NetworkRules,
        resolver: Resolver | None = None,
        *,
        connect: Connect = connect_directly,
        limits: GuardLimits | None = None,
    ) -> None:
        self._rules = rules
        self._resolver = resolver or CachingResolver(SystemResolver())
        self._connect = connect
        self._limits = limits or GuardLimits()
        self._channels: set[SessionChannel] = set()

    @property
    def rules(self) -> NetworkRules:
        """The rules now: the ports of open channels are forbidden too."""
        return self._rules

    def forbid(self, *endpoints: Endpoint) -> None:
        """Refuse these always: where servers of ours listen."""
        self._rules = self._rules.forbidding(*endpoints)

    async def open_channel(self, limits: GuardLimits | None = None) -> SessionChannel:
        """A new session's way into the network; its owner closes it."""
        limits = limits or self._limits
        dialler = Dialler(lambda: self._rules, self._resolver, self._connect, limits)
        channel = SessionChannel(dialler, limits, self._forget)
        await channel.open()
        self._channels.add(channel)
        self.forbid(_endpoint(channel))
        return channel

    async def close(self) -> None:
        """Close all channels that are still open, then the resolver."""
        for channel in list(self._channels):
            await channel.close()
        await self._resolver.close()

    def _forget(self, channel: SessionChannel) -> None:
        self._channels.discard(channel)
        self._rules = self._rules.no_longer_forbidding(_endpoint(channel))


def _endpoint(channel: SessionChannel) -> Endpoint:
    return Endpoint(IPv4Address(HOST), channel.port)
