"""From a target to a connection, through the rules.

A name is resolved once. Every address of it is checked, and one rejected address rejects the whole
name: a site that mixes public and private addresses is suspicious. The connection is then made to
the checked addresses, so a second answer of a resolver cannot redirect it.
"""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from rollgym.servers.limit import Limit
from webgym.browser.guard.addresses import LOCALHOST, IpAddress, is_localhost
from webgym.browser.guard.connection import ProxiedConnection
from webgym.browser.guard.resolver import HostResolver, UnresolvedError
from webgym.browser.guard.rules import NetworkRules
from webgym.browser.guard.socks import ConnectionTarget, SocksReply

MEBIBYTE = 1 << 20


class GuardLimits(msgspec.Struct, frozen=True):
    """The limits for the connections of a session. Times are in seconds, sizes in bytes."""

    handshake_seconds: float = 10.0
    """From the connection of a browser to its complete request."""
    resolve_seconds: float = 10.0
    """For the addresses of a name, including the wait for other lookups."""
    connect_seconds: float = 10.0
    """For each address."""
    addresses_tried: int = 3
    lookups_at_once: int = 4
    """Lookups that one session may run at the same time; more wait."""
    idle_seconds: float = 300.0
    """A connection without traffic for this long is closed; a half-closed one earlier."""
    connections: int = 256
    """At the same time, in one session."""
    step_bytes: int = 64 * MEBIBYTE
    """The bytes that the pages of a session may transfer in one step."""
    remembered: int = 64
    """Rejected and failed targets that are kept until the session reads them."""


ProtocolFactory = Callable[[], asyncio.Protocol]
Connect = Callable[[IpAddress, int, ProtocolFactory], Awaitable[object]]
"""Opens a connection to an address. Raises OSError.

If it is cancelled, it leaves either nothing behind or a connected protocol, which is notified when
the connection ends.
"""

_REPLIES = {
    errno.ECONNREFUSED: SocksReply.CONNECTION_REFUSED,
    errno.ENETUNREACH: SocksReply.NETWORK_UNREACHABLE,
    errno.EHOSTUNREACH: SocksReply.HOST_UNREACHABLE,
    errno.ETIMEDOUT: SocksReply.HOST_UNREACHABLE,
    errno.EADDRNOTAVAIL: SocksReply.NETWORK_UNREACHABLE,  # IPv6 on a machine that has none
}


class DialError(Exception):
    """The connection failed. `reply` is the answer to the browser."""

    def __init__(self, reply: SocksReply, reason: str) -> None:
        super().__init__(reason)
        self.reply = reply
        self.reason = reason


async def connect_directly(address: IpAddress, port: int, protocol: ProtocolFactory) -> None:
    """Connect to an address, without any name lookup."""
    await attach(await dial_socket(address, port), protocol)


async def dial_socket(address: IpAddress, port: int) -> socket.socket:
    """A connected socket. Raises OSError."""
    loop = asyncio.get_running_loop()
    dialled = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET)
    try:
        dialled.setblocking(False)
        dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(dialled, (str(address), port))
    except BaseException:
        dialled.close()
        raise
    return dialled


async def attach(dialled: socket.socket, protocol: ProtocolFactory) -> None:
    """Let a protocol use a connected socket."""
    loop = asyncio.get_running_loop()
    # A cancelled `create_connection` may close the new connection without notice. It waits for
    # nothing outside of this process, so it always runs to its end.
    connected = asyncio.ensure_future(loop.create_connection(protocol, sock=dialled))
    try:
        await asyncio.shield(connected)
    except asyncio.CancelledError:
        await asyncio.wait((connected,))
        if not connected.cancelled():
            connected.exception()
        raise


class Dialler:
    """Opens the connections of one session."""

    def __init__(
        self,
        current_rules: Callable[[], NetworkRules],
        resolver: HostResolver,
        connect: Connect,
        limits: GuardLimits,
    ) -> None:
        self.current_rules = current_rules
        self._resolver = resolver
        self._connect = connect
        self._limits = limits
        self._lookups = asyncio.Semaphore(limits.lookups_at_once)

    async def dial(self, target: ConnectionTarget, connection: ProxiedConnection) -> None:
        """Connect the other end of a connection to the target. Raises DialError."""
        addresses = await self._addresses(target.host)
        rules = self.current_rules()
        for address in addresses:
            reason = rules.rejection(address, target.port)
            if reason is not None:
                raise DialError(SocksReply.NOT_ALLOWED, reason)
        failure = DialError(SocksReply.HOST_UNREACHABLE, f"{target.host} has no address")
        for address in addresses[: self._limits.addresses_tried]:
            try:
                with Limit(self._limits.connect_seconds):
                    await self._connect(address, target.port, connection.upstream)
            except TimeoutError:
                if connection.connected:
                    return  # in the last moment; another attempt would connect it twice
                waited = f"{self._limits.connect_seconds:g} s"
                reason = f"{address} port {target.port} did not answer within {waited}"
                failure = DialError(SocksReply.HOST_UNREACHABLE, reason)
            except OSError as error:
                reply = _REPLIES.get(error.errno or 0, SocksReply.FAILED)
                reason = f"{address} port {target.port}: {error.strerror or error}"
                failure = DialError(reply, reason)
            else:
                return
        raise failure

    async def _addresses(self, host: IpAddress | str) -> Sequence[IpAddress]:
        if not isinstance(host, str):
            return (host,)
        if is_localhost(host):
            return (LOCALHOST,)
        reason = self.current_rules().name_rejection(host)
        if reason is not None:
            raise DialError(SocksReply.NOT_ALLOWED, reason)
        try:
            with Limit(self._limits.resolve_seconds):
                async with self._lookups:
                    return await self._resolver.resolve(host)
        except UnresolvedError as error:
            raise DialError(SocksReply.HOST_UNREACHABLE, str(error)) from error
        except TimeoutError as error:
            waited = f"{self._limits.resolve_seconds:g} s"
            reason = f"the address of {host} was not found within {waited}"
            raise DialError(SocksReply.HOST_UNREACHABLE, reason) from error
