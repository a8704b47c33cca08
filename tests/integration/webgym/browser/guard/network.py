"""A small internet on loopback: sites with public addresses, names for them, and a SOCKS client."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any, TypeVar

import pytest
import uvloop

from webgym.browser.guard.addresses import IpAddress
from webgym.browser.guard.dialler import GuardLimits, ProtocolFactory
from webgym.browser.guard.guard import NetworkGuard, SessionChannel
from webgym.browser.guard.resolver import UnresolvedError
from webgym.browser.guard.rules import NetworkRules

T = TypeVar("T")
PATIENCE = 60.0
PUBLIC = ip_address("93.184.216.34")
OTHER_PUBLIC = ip_address("93.184.216.35")
PIECE = b"0123456789abcdef" * 4096
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

over_both_loops = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])


def run(scenario: Coroutine[Any, Any, T], loop: str = "uvloop") -> T:
    """Run a scenario to its end, on the loop of a node unless told otherwise."""
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop

    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE):
            return await scenario

    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what must come to be true."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - of what is not ours to signal
            await asyncio.sleep(0.005)


class Site:
    """A server that counts who comes, and lets `talk` speak with each."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.visits = 0
        self.left = 0
        self.port = 0

    @asynccontextmanager
    async def served(self) -> AsyncIterator["Site"]:
        server = await asyncio.start_server(self._visit, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            await until(lambda: self.left == self.visits)
            await server.wait_closed()

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits += 1
        try:
            await self._talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            self.left += 1


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send without end, until the other side is gone."""
    while not writer.transport.is_closing():
        writer.write(PIECE)
        await writer.drain()


async def pour_when_asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if await reader.read(1):
        await pour(reader, writer)


async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(1 << 16):
        pass


class Wires:
    """The connector: leads public addresses to the sites that stand for them."""

    def __init__(self, sites: dict[IpAddress, Site] | None = None) -> None:
        self.sites = sites or {}
        self.broken: dict[IpAddress, OSError] = {}
        self.dialled: list[tuple[str, int]] = []

    async def connect(self, address: IpAddress, port: int, protocol: ProtocolFactory) -> None:
        self.dialled.append((str(address), port))
        if address in self.broken:
            raise self.broken[address]
        site = self.sites.get(address)
        if site is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        await asyncio.get_running_loop().create_connection(protocol, "127.0.0.1", site.port)


class Names:
    """A resolver whose answers are given: one after the other, the last one for ever."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers = {name.replace("_", "."): list(each) for name, each in answers.items()}
        self.asked: list[str] = []
        self.closed = False

    async def resolve(self, name: str) -> Sequence[IpAddress]:
        self.asked.append(name)
        await asyncio.sleep(0)
        answers = self._answers.get(name)
        if answers is None:
            raise UnresolvedError(f"{name} has no address")
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return [ip_address(text) for text in answer]

    async def close(self) -> None:
        self.closed = True


class Client:
    """A program that has connected to a channel, as a browser does."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.reply = -1

    @classmethod
    async def of(cls, channel: SessionChannel, *, receive_buffer: int | None = None) -> "Client":
        raw = socket.socket()
        if receive_buffer is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", channel.port))
        return cls(*await asyncio.open_connection(sock=raw))

    async def ask(self, host: str, port: int, *, early: bytes = b"") -> int:
        """Ask for a target by name; the code of the reply."""
        name = host.encode()
        request = b"\x05\x01\x00\x03" + bytes([len(name)]) + name + port.to_bytes(2)
        self.writer.write(b"\x05\x01\x00")
        assert await self.reader.readexactly(2) == b"\x05\x00"
        self.writer.write(request + early)
        self.reply = (await self.reader.readexactly(10))[1]
        return self.reply

    async def ended(self) -> bytes:
        """Whatever still comes; returns when the connection ends, in whatever way."""
        received = bytearray()
        try:
            while data := await self.reader.read(1 << 16):
                received += data
        except ConnectionError:
            pass
        return bytes(received)

    def close(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def asking(channel: SessionChannel, host: str, port: int = 80) -> AsyncIterator[Client]:
    """A client that has asked for a target."""
    client = await Client.of(channel)
    try:
        await client.ask(host, port)
        yield client
    finally:
        client.close()


@asynccontextmanager
async def guarded(
    wires: Wires | None = None,
    names: Names | None = None,
    allow: Sequence[str] = (),
    limits: GuardLimits | None = None,
) -> AsyncIterator[tuple[NetworkGuard, SessionChannel]]:
    """A guard with one channel."""
    guard = NetworkGuard(
        NetworkRules.parse(allow),
        names or Names(site_example=[[str(PUBLIC)]]),
        connect=(wires or Wires()).connect,
        limits=limits,
    )
    try:
        yield guard, await guard.open_channel()
    finally:
        await guard.close()
