"""The part of SOCKS 5 (RFC 1928) that browsers speak, as bytes in and values out.

A browser greets, is told that no password is needed, and asks for one connection to a host that it
has not resolved. Nothing else is served: no BIND, no UDP. `Handshake` is fed what arrives and says
what to answer; it knows nothing of sockets.
"""

from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address

import msgspec

from webgym.browser.guard.addresses import Address, plain
from webgym.browser.guard.names import HostError, read_host

VERSION = 5
NO_PASSWORD = 0
NO_METHOD = b"\x05\xff"
WELCOME = b"\x05\x00"


class Reply(IntEnum):
    """What a request is answered with."""

    GRANTED = 0
    FAILED = 1
    NOT_ALLOWED = 2
    NETWORK_UNREACHABLE = 3
    HOST_UNREACHABLE = 4
    CONNECTION_REFUSED = 5
    COMMAND_UNKNOWN = 7
    ADDRESS_UNKNOWN = 8

    @property
    def wire(self) -> bytes:
        """The whole answer. The address in it means nothing to a browser, and stays empty."""
        return bytes((VERSION, self, 0, 1, 0, 0, 0, 0, 0, 0))


class Target(msgspec.Struct, frozen=True):
    """Where a connection shall lead: an address, or a name to be resolved."""

    host: Address | str
    port: int


class SocksError(Exception):
    """The other side does not speak as it should. `answer` is what it is told before the end."""

    def __init__(self, message: str, answer: bytes = b"") -> None:
        super().__init__(message)
        self.answer = answer


class Handshake:
    """The talk before a connection. Feed it until it gives the target."""

    __slots__ = ("_greeted", "_received")

    def __init__(self) -> None:
        self._received = bytearray()
        self._greeted = False

    def feed(self, data: bytes) -> tuple[bytes, Target | None]:
        """What to answer now, and the target once it is known. Raises SocksError.

        What a client sent beyond its request, without waiting for the reply, is in `rest`.
        """
        self._received += data
        if self._greeted:
            return b"", self._read_request()
        if not self._read_greeting():
            return b"", None
        self._greeted = True
        try:
            return WELCOME, self._read_request()
        except SocksError as error:
            raise SocksError(str(error), WELCOME + error.answer) from error

    @property
    def rest(self) -> bytes:
        return bytes(self._received)

    def _read_greeting(self) -> bool:
        received = self._received
        if received and received[0] != VERSION:
            raise SocksError(f"this is no SOCKS {VERSION}")
        if len(received) < 2 or len(received) < 2 + received[1]:
            return False
        methods = received[2 : 2 + received[1]]
        if NO_PASSWORD not in methods:
            raise SocksError("no password can be given here", NO_METHOD)
        del received[: 2 + len(methods)]
        return True

    def _read_request(self) -> Target | None:
        received = self._received
        if received and received[0] != VERSION:
            raise SocksError(f"this is no SOCKS {VERSION}", Reply.FAILED.wire)
        if len(received) < 5:
            return None
        command, kind = received[1], received[3]
        if command != 1:
            raise SocksError("only CONNECT is served", Reply.COMMAND_UNKNOWN.wire)
        start, length = 4, {1: 4, 4: 16}.get(kind, 0)
        if kind == 3:
            start, length = 5, received[4]
        elif not length:
            raise SocksError(f"there is no address type {kind}", Reply.ADDRESS_UNKNOWN.wire)
        end = start + length
        if len(received) < end + 2:
            return None
        host = _read_host(kind, bytes(received[start:end]))
        port = int.from_bytes(received[end : end + 2])
        del received[: end + 2]
        return Target(host, port)


def _read_host(kind: int, packed: bytes) -> Address | str:
    if kind == 1:
        return IPv4Address(packed)
    if kind == 4:
        return plain(IPv6Address(packed))
    try:
        return read_host(packed.decode("ascii"))
    except (UnicodeDecodeError, HostError) as error:
        raise SocksError(f"{packed!r} is no host", Reply.HOST_UNREACHABLE.wire) from error
