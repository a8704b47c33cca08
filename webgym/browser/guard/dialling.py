"""From a target to a connection, through the rules.

A name is resolved once. Every address that it has is judged, and one that is refused spoils the
whole name: a site that mixes public and private addresses is trying something. The connection is
then made to those very addresses, so no second answer of a resolver can lead it elsewhere.
"""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from rollgym.servers.limit import Limit
from webgym.browser.guard.addresses import Address
from webgym.browser.guard.limits import GuardLimits
from webgym.browser.guard.names import LOCALHOST, is_localhost
from webgym.browser.guard.resolver import Resolver, UnresolvedError
from webgym.browser.guard.rules import NetworkRules
from webgym.browser.guard.socks import Reply, Target

ProtocolFactory = Callable[[], asyncio.Protocol]
Connect = Callable[[Address, int, ProtocolFactory], Awaitable[object]]
"""Opens a connection to an address. Raises OSError.

Cancelled at any moment, it ends with nothing left behind, or with a protocol that is connected, and
that will be told when it is not any more.
"""

_REPLIES = {
    errno.ECONNREFUSED: Reply.CONNECTION_REFUSED,
    errno.ENETUNREACH: Reply.NETWORK_UNREACHABLE,
    errno.EHOSTUNREACH: Reply.HOST_UNREACHABLE,
    errno.ETIMEDOUT: Reply.HOST_UNREACHABLE,
    errno.EADDRNOTAVAIL: Reply.NETWORK_UNREACHABLE,  # IPv6 on a machine that has none
}


class Caller(Protocol):
    """Who wants to be connected."""

    @property
    def connected(self) -> bool: ...

    def upstream(self) -> asyncio.Protocol:
        """The protocol to connect."""
        ...


class DialError(Exception):
    """There is no connection. `reply` is what the browser is told."""

    def __init__(self, reply: Reply, reason: str) -> None:
        super().__init__(reason)
        self.reply = reply
        self.reason = reason


async def connect_directly(address: Address, port: int, protocol: ProtocolFactory) -> None:
    """The connector of production. It is given an address and cannot look up anything."""
    loop = asyncio.get_running_loop()
    dialled = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET)
    try:
        dialled.setblocking(False)
        dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(dialled, (str(address), port))
    except BaseException:
        dialled.close()
        raise
    # A cancelled `create_connection` may close what it has just connected, and tell nobody. It
    # waits for nothing outside of this process, so it is let come to its end.
    connected = asyncio.ensure_future(loop.create_connection(protocol, sock=dialled))
    try:
        await asyncio.shield(connected)
    except asyncio.CancelledError:
        await asyncio.wait((connected,))
        if not connected.cancelled():
            connected.exception()
        raise


class Dialler:
    """Makes the connections of one session."""

    def __init__(
        self,
        current_rules: Callable[[], NetworkRules],
        resolver: Resolver,
        connect: Connect,
        limits: GuardLimits,
    ) -> None:
        self._current_rules = current_rules
        self._resolver = resolver
        self._connect = connect
        self._limits = limits
        self._lookups = asyncio.Semaphore(limits.lookups_at_once)

    @property
    def rules(self) -> NetworkRules:
        """Those that hold now."""
        return self._current_rules()

    async def dial(self, target: Target, caller: Caller) -> None:
        """Connect a caller to the target. Raises DialError."""
        addresses = await self._addresses(target.host)
        rules = self.rules
        for address in addresses:
            reason = rules.refusal(address, target.port)
            if reason is not None:
                raise DialError(Reply.NOT_ALLOWED, reason)
        failure = DialError(Reply.HOST_UNREACHABLE, f"{target.host} has no address")
        for address in addresses[: self._limits.addresses_tried]:
            try:
                with Limit(self._limits.connect_seconds):
                    await self._connect(address, target.port, caller.upstream)
            except TimeoutError:
                if caller.connected:  # in the last moment; another address would be a second one
                    return
                waited = f"{self._limits.connect_seconds:g} s"
                reason = f"{address} port {target.port} did not answer within {waited}"
                failure = DialError(Reply.HOST_UNREACHABLE, reason)
            except OSError as error:
                reply = _REPLIES.get(error.errno or 0, Reply.FAILED)
                reason = f"{address} port {target.port}: {error.strerror or error}"
                failure = DialError(reply, reason)
            else:
                return
        raise failure

    async def _addresses(self, host: Address | str) -> Sequence[Address]:
        if not isinstance(host, str):
            return (host,)
        if is_localhost(host):
            return (LOCALHOST,)
        reason = self.rules.name_refusal(host)
        if reason is not None:
            raise DialError(Reply.NOT_ALLOWED, reason)
        try:
            with Limit(self._limits.resolve_seconds):
                async with self._lookups:
                    return await self._resolver.resolve(host)
        except UnresolvedError as error:
            raise DialError(Reply.HOST_UNREACHABLE, str(error)) from error
        except TimeoutError as error:
            waited = f"{self._limits.resolve_seconds:g} s"
            reason = f"the address of {host} was not found within {waited}"
            raise DialError(Reply.HOST_UNREACHABLE, reason) from error
