"""Connections through the upstream proxy of a session.

The guard judges first: a name is resolved here, its addresses are checked, and the proxy is asked
for a checked address, not for the name. So the rules hold as without a proxy, and the proxy cannot
resolve the name to another address.

The proxy itself is named by a client, so its address is judged, too: a public address, or one that
the operator allows with `--allow-proxy`.
"""

import asyncio
import base64
import socket
from collections.abc import Callable

from rollgym.servers.limit import Limit
from webgym.browser.contract.errors import BadRequestError
from webgym.browser.contract.profile import UpstreamProxy
from webgym.browser.guard.addresses import (
    LOCALHOST,
    HostError,
    IpAddress,
    is_localhost,
    read_host,
)
from webgym.browser.guard.dialler import (
    Connect,
    ProtocolFactory,
    attach,
    dial_socket,
)
from webgym.browser.guard.resolver import HostResolver, UnresolvedError
from webgym.browser.guard.rules import NetworkRules

RESOLVE_SECONDS = 10.0
LARGEST_HEADER = 8192
_END = b"\r\n\r\n"
_WITHOUT_PASSWORD, _WITH_PASSWORD = b"\x05\x01\x00", b"\x05\x02\x00\x02"
_LENGTHS = {1: 4, 4: 16}


class UpstreamProxies:
    """Finds and judges the proxies of sessions."""

    def __init__(self, rules: Callable[[], NetworkRules], resolver: HostResolver) -> None:
        self._rules = rules
        self._resolver = resolver

    async def connect_through(self, proxy: UpstreamProxy) -> Connect:
        """Opens connections through this proxy. Raises BadRequestError if it cannot be used."""
        scheme, host, port = proxy.address
        address = await self._address(proxy, host)
        reason = self._rules().rejection(address, port)
        if reason is not None:
            raise BadRequestError(
                f"the proxy {proxy.server} is not allowed ({reason}): the operator of the browser "
                "server can allow it with --allow-proxy"
            )
        shake_hands = _through_socks if scheme == "socks5" else _through_http

        async def connect(target: IpAddress, target_port: int, protocol: ProtocolFactory) -> None:
            try:
                dialled = await dial_socket(address, port)
            except OSError as error:
                raise OSError(error.errno, f"its proxy cannot be reached: {error}") from error
            try:
                await shake_hands(dialled, proxy, target, target_port)
            except BaseException:
                dialled.close()
                raise
            await attach(dialled, protocol)

        return connect

    async def _address(self, proxy: UpstreamProxy, host: str) -> IpAddress:
        try:
            named = read_host(host)
            if not isinstance(named, str):
                return named
            if is_localhost(named):
                return LOCALHOST
            with Limit(RESOLVE_SECONDS):
                found = await self._resolver.resolve(named)
        except (HostError, UnresolvedError, TimeoutError) as error:
            raise BadRequestError(f"the proxy {proxy.server} has no address: {error}") from error
        if not found:
            raise BadRequestError(f"the proxy {proxy.server} has no address")
        return found[0]


async def _through_http(
    dialled: socket.socket, proxy: UpstreamProxy, target: IpAddress, port: int
) -> None:
    loop = asyncio.get_running_loop()
    where = f"[{target}]:{port}" if target.version == 6 else f"{target}:{port}"
    lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
    if proxy.username is not None:
        secret = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {secret}")
    await loop.sock_sendall(dialled, "\r\n".join(lines).encode() + _END)
    header = bytearray()
    # One byte at a time: what follows the header belongs to the site.
    while not header.endswith(_END):
        header += await _receive(dialled, 1)
        if len(header) > LARGEST_HEADER:
            raise OSError(0, "its proxy sent an answer without end")
    status = header.split(b"\r\n", 1)[0].decode("latin-1")
    words = status.split(" ", 2)
    if not words[0].startswith("HTTP/") or words[1:2] != ["200"]:
        raise OSError(0, f"its proxy answered {status[:100]!r}")


async def _through_socks(
    dialled: socket.socket, proxy: UpstreamProxy, target: IpAddress, port: int
) -> None:
    loop = asyncio.get_running_loop()
    has_name = proxy.username is not None
    await loop.sock_sendall(dialled, _WITH_PASSWORD if has_name else _WITHOUT_PASSWORD)
    version, method = await _receive(dialled, 2)
    if version != 5 or method not in (0, 2) or (method == 2 and not has_name):
        raise OSError(0, "its proxy does not accept these credentials, or is not SOCKS 5")
    if method == 2:
        name, password = (proxy.username or "").encode()[:255], proxy.password.encode()[:255]
        await loop.sock_sendall(
            dialled, bytes((1, len(name))) + name + bytes((len(password),)) + password
        )
        if (await _receive(dialled, 2))[1] != 0:
            raise OSError(0, "its proxy does not accept the name and password")
    kind = 4 if target.version == 6 else 1
    await loop.sock_sendall(
        dialled, bytes((5, 1, 0, kind)) + target.packed + port.to_bytes(2, "big")
    )
    _, reply, _, kind = await _receive(dialled, 4)
    if reply != 0:
        raise OSError(0, f"its proxy could not connect (SOCKS reply {reply})")
    length = _LENGTHS.get(kind) or (await _receive(dialled, 1))[0]
    await _receive(dialled, length + 2)


async def _receive(dialled: socket.socket, size: int) -> bytes:
    """Exactly this many bytes. Raises OSError if the proxy closes."""
    loop, received = asyncio.get_running_loop(), b""
    while len(received) < size:
        more = await loop.sock_recv(dialled, size - len(received))
        if not more:
            raise OSError(0, "its proxy closed the connection")
        received += more
    return received
