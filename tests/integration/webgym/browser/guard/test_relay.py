"""Bytes both ways: all of them, in order, and no more of them waiting than a slow end can take."""

import asyncio
import hashlib
import socket
import struct

from tests.cases import for_each
from tests.integration.webgym.browser.guard.network import (
    PIECE,
    PUBLIC,
    Client,
    Site,
    Wires,
    asking,
    echo,
    guarded,
    over_both_loops,
    pour,
    run,
    until,
)
from webgym.browser.guard.dialler import GuardLimits
from webgym.browser.guard.guard import SessionChannel

MEGABYTES = 24 << 20
PIECES = MEGABYTES // len(PIECE)
DIGEST = hashlib.sha256(PIECE * PIECES).digest()
LITTLE = 1 << 20
"""One piece as it is read, and what may wait before the other end is paused."""


async def _waiting_in(channel: SessionChannel, sent: list[int]) -> int:
    """The bytes that the guard holds when nothing moves any more."""
    before = -1
    while before != len(sent):
        before = len(sent)
        await asyncio.sleep(0.1)
    (connection,) = channel.connections
    assert connection._upstream is not None
    ends = (connection.transport, connection._upstream)
    return sum(end.get_write_buffer_size() for end in ends)


async def _digest(reader: asyncio.StreamReader) -> bytes:
    received = hashlib.sha256()
    while data := await reader.read(1 << 16):
        received.update(data)
    return received.digest()


async def _send(writer: asyncio.StreamWriter, sent: list[int], pieces: int = PIECES) -> None:
    for _ in range(pieces):
        writer.write(PIECE)
        await writer.drain()
        sent.append(len(PIECE))
    writer.write_eof()


@over_both_loops
def test_many_megabytes_go_both_ways_at_once(loop: str) -> None:
    async def scenario() -> None:
        async with Site(echo).served() as site, guarded(Wires({PUBLIC: site})) as (_, channel):
            async with asking(channel, "site.example") as client, asyncio.TaskGroup() as group:
                group.create_task(_send(client.writer, []))
                assert await _digest(client.reader) == DIGEST
            assert channel.traffic.received == channel.traffic.sent == MEGABYTES
            await until(lambda: len(channel.connections) == 0)

    run(scenario(), loop)


@over_both_loops
def test_a_slow_reader_slows_the_site_down_and_gets_everything(loop: str) -> None:
    sent: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _send(writer, sent)
        await reader.read()

    async def scenario() -> None:
        async with Site(talk).served() as site, guarded(Wires({PUBLIC: site})) as (_, channel):
            client = await Client.of(channel, receive_buffer=4 << 10)
            await client.ask("site.example", 80)
            assert 0 < await _waiting_in(channel, sent) < LITTLE
            assert await _digest(client.reader) == DIGEST
            client.close()

    run(scenario(), loop)


@over_both_loops
@for_each("early", [b"", PIECE * 4])
def test_a_slow_site_slows_the_browser_down_and_gets_everything(loop: str, early: bytes) -> None:
    sent: list[int] = []
    digests: list[bytes] = []

    async def scenario() -> None:
        may_read = asyncio.Event()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await may_read.wait()
            digests.append(await _digest(reader))

        async with (
            Site(talk).served() as site,
            guarded(Wires({PUBLIC: site})) as (_, channel),
            asyncio.TaskGroup() as group,
        ):
            client = await Client.of(channel)
            await client.ask("site.example", 80, early=early)
            group.create_task(_send(client.writer, sent, PIECES - len(early) // len(PIECE)))
            waiting = await _waiting_in(channel, sent)
            may_read.set()
            await client.ended()
            client.close()
            assert 0 < waiting < LITTLE
        assert digests == [DIGEST]

    run(scenario(), loop)


@over_both_loops
def test_a_browser_that_has_said_all_still_hears_the_answer(loop: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = await reader.read()
        writer.write(b"heard " + question)
        writer.write_eof()

    async def scenario() -> None:
        async with Site(talk).served() as site, guarded(Wires({PUBLIC: site})) as (_, channel):
            async with asking(channel, "site.example") as client:
                client.writer.write(b"this")
                client.writer.write_eof()
                assert await client.ended() == b"heard this"
            await until(lambda: len(channel.connections) == 0)

    run(scenario(), loop)


@over_both_loops
def test_a_site_that_has_said_all_still_hears_the_browser(loop: str) -> None:
    heard: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"all")
        writer.write_eof()
        heard.append(await reader.read())

    async def scenario() -> None:
        async with Site(talk).served() as site, guarded(Wires({PUBLIC: site})) as (_, channel):
            client = await Client.of(channel)
            await client.ask("site.example", 80)
            assert await client.ended() == b"all"
            client.writer.write(b"later")
            client.writer.write_eof()
            await until(lambda: len(channel.connections) == 0)
            client.close()
        assert heard == [b"later"]

    run(scenario(), loop)


@over_both_loops
def test_a_site_that_speaks_first_is_heard_after_the_reply(loop: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"welcome")
        await writer.drain()

    async def scenario() -> None:
        async with Site(talk).served() as site, guarded(Wires({PUBLIC: site})) as (_, channel):
            for _ in range(20):
                async with asking(channel, "site.example") as client:
                    assert client.reply == 0
                    assert await client.reader.readexactly(7) == b"welcome"

    run(scenario(), loop)


@over_both_loops
def test_what_is_sent_without_waiting_for_the_reply_is_not_lost(loop: str) -> None:
    async def scenario() -> None:
        async with Site(echo).served() as site, guarded(Wires({PUBLIC: site})) as (_, channel):
            client = await Client.of(channel)
            assert await client.ask("site.example", 80, early=b"hello") == 0
            assert await client.reader.readexactly(5) == b"hello"
            client.close()

    run(scenario(), loop)


@over_both_loops
def test_a_browser_that_vanishes_in_the_middle_ends_the_connection_to_the_site(loop: str) -> None:
    async def scenario() -> None:
        limits = GuardLimits(step_bytes=1 << 40)
        async with (
            Site(pour).served() as site,
            guarded(Wires({PUBLIC: site}), limits=limits) as (_, channel),
        ):
            async with asking(channel, "site.example") as client:
                await client.reader.readexactly(1 << 20)
            await until(lambda: site.left == 1)
            await until(lambda: len(channel.connections) == 0)

    run(scenario(), loop)


@over_both_loops
def test_a_site_that_vanishes_in_the_middle_ends_the_connection_to_the_browser(loop: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(PIECE)
        await writer.drain()
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def scenario() -> None:
        async with Site(talk).served() as site, guarded(Wires({PUBLIC: site})) as (_, channel):
            async with asking(channel, "site.example") as client:
                await client.ended()
            await until(lambda: len(channel.connections) == 0)

    run(scenario(), loop)
