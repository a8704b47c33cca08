"""The part of SOCKS 5 (RFC 1928) that browsers use, as bytes in and values out.

A browser sends a greeting, learns that no password is needed, and requests one connection to an
unresolved host. Nothing else is supported: no BIND, no UDP. `SocksHandshake` is fed the received
bytes and returns the answers; it does not know sockets.
"""

from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address

import msgspec

from webgym.browser.guard.addresses import HostError, IpAddress, read_host, unmapped

VERSION = 5
NO_PASSWORD = 0
NO_METHOD = b"\x05\xff"
WELCOME = b"\x05\x00"


class SocksReply(IntEnum):
    """The answer to a connection request."""

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
        """The answer as bytes. Browsers ignore the address in it, so it stays empty."""
        return bytes((VERSION, self, 0, 1, 0, 0, 0, 0, 0, 0))


class ConnectionTarget(msgspec.Struct, frozen=True):
    """The target of a connection: an address, or a name to resolve."""

    host: IpAddress | str
    port: int


class SocksError(Exception):
    """The client broke the protocol. `answer` is sent to it before the connection closes."""

    def __init__(self, message: str, answer: bytes = b"") -> None:
        super().__init__(message)
        self.answer = answer


class SocksHandshake:
    """The messages before a connection. Feed it until it returns the target."""

    __slots__ = ("_greeted", "_received")

    def __init__(self) -> None:
        self._received = bytearray()
        self._greeted = False

    def feed(self, data: bytes) -> tuple[bytes, ConnectionTarget | None]:
        """The bytes to answer now, and the target once it is known. Raises SocksError.

        Bytes that a client sent after its request, without waiting for the reply, are in `rest`.
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
            raise SocksError(f"this is not SOCKS {VERSION}")
        if len(received) < 2 or len(received) < 2 + received[1]:
            return False
        methods = received[2 : 2 + received[1]]
        if NO_PASSWORD not in methods:
            raise SocksError("passwords are not supported", NO_METHOD)
        del received[: 2 + len(methods)]
        return True

    def _read_request(self) -> ConnectionTarget | None:
        received = self._received
        if received and received[0] != VERSION:
            raise SocksError(f"this is not SOCKS {VERSION}", SocksReply.FAILED.wire)
        if len(received) < 5:
            return None
        command, kind = received[1], received[3]
        if command != 1:
            raise SocksError("only CONNECT is supported", SocksReply.COMMAND_UNKNOWN.wire)
        start, length = 4, {1: 4, 4: 16}.get(kind, 0)
        if kind == 3:
            start, length = 5, received[4]
        elif not length:
            raise SocksError(f"unknown address type {kind}", SocksReply.ADDRESS_UNKNOWN.wire)
        end = start + length
        if len(received) < end + 2:
            return None
        host = _read_host(kind, bytes(received[start:end]))
        port = int.from_bytes(received[end : end + 2])
        del received[: end + 2]
        return ConnectionTarget(host, port)


def _read_host(kind: int, packed: bytes) -> IpAddress | str:
    if kind == 1:
        return IPv4Address(packed)
    if kind == 4:
        return unmapped(IPv6Address(packed))
    try:
        return read_host(packed.decode("ascii"))
    except (UnicodeDecodeError, HostError) as error:
        raise SocksError(f"{packed!r} is not a host", SocksReply.HOST_UNREACHABLE.wire) from error
