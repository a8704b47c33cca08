"""What a page can take from the node that runs it: so much, and no more."""

import asyncio
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import cast

import pytest

from tests.cases import for_each
from tests.integration.webgym.browser.guard.network import (
    PUBLIC,
    Client,
    Names,
    Site,
    Wires,
    asking,
    echo,
    guarded,
    over_both_loops,
    pour,
    pour_when_asked,
    run,
    swallow,
    until,
)
from webgym.browser.guard.addresses import IpAddress
from webgym.browser.guard.dialler import GuardLimits, ProtocolFactory, connect_directly
from webgym.browser.guard.guard import NetworkGuard
from webgym.browser.guard.rules import NetworkRules
from webgym.browser.guard.socks import SocksReply

MEBIBYTE = 1 << 20


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@over_both_loops
def test_a_page_that_is_too_large_is_cut_until_the_next_step(loop: str) -> None:
    async def scenario() -> None:
        limits = GuardLimits(step_bytes=2 * MEBIBYTE)
        async with (
            Site(pour_when_asked).served() as site,
            guarded(Wires({PUBLIC: site}), limits=limits) as (_, channel),
        ):
            async with asking(channel, "site.example") as idle:
                async with asking(channel, "site.example") as client:
                    client.writer.write(b"?")
                    assert len(await client.ended()) <= 2 * MEBIBYTE
                await idle.ended()
            await until(lambda: len(channel.connections) == 0)
            (refusal,) = channel.rejections.take()
            assert refusal.reason == "page too large: more than 2 MiB in one step"
            assert (refusal.host, refusal.port) == ("site.example", 80)
            async with asking(channel, "site.example") as client:
                assert client.reply == SocksReply.NOT_ALLOWED
            assert channel.rejections.take()[0].host == "site.example"
            channel.traffic.begin_step()
            async with asking(channel, "site.example") as client:
                assert client.reply == SocksReply.GRANTED
                client.writer.write(b"?")
                await client.reader.readexactly(MEBIBYTE)

    run(scenario(), loop)


def test_what_a_page_sends_counts_as_well() -> None:
    async def scenario() -> None:
        limits = GuardLimits(step_bytes=MEBIBYTE)
        async with (
            Site(swallow).served() as site,
            guarded(Wires({PUBLIC: site}), limits=limits) as (_, channel),
        ):
            async with asking(channel, "site.example") as client:
                client.writer.write(b"x" * 2 * MEBIBYTE)
                await client.ended()
            assert "page too large" in channel.rejections.take()[0].reason

    run(scenario())


@over_both_loops
def test_a_flood_of_connections_is_bounded(loop: str) -> None:
    async def scenario() -> None:
        limits = GuardLimits(connections=10)
        async with (
            Site(echo).served() as site,
            guarded(Wires({PUBLIC: site}), limits=limits) as (_, channel),
        ):
            clients = [await Client.of(channel) for _ in range(10)]
            for client in clients:
                assert await client.ask("site.example", 80) == SocksReply.GRANTED
            for _ in range(50):
                extra = await Client.of(channel)
                assert await extra.ended() == b""
                extra.close()
            assert len(channel.connections) == 10
            assert site.visits == 10
            (refusal,) = channel.rejections.take()
            assert refusal.reason == "more than 10 connections at once"
            clients.pop().close()
            await until(lambda: len(channel.connections) == 9)
            async with asking(channel, "site.example") as client:
                assert client.reply == SocksReply.GRANTED
            for client in clients:
                client.close()

    run(scenario(), loop)


@for_each("talk", [b"", b"\x05", b"\x05\x01\x00\x05\x01\x00\x03\x0bexam"])
def test_a_client_that_does_not_finish_its_request_is_closed(talk: bytes) -> None:
    async def scenario() -> None:
        async with guarded(limits=GuardLimits(handshake_seconds=0.05)) as (_, channel):
            client = await Client.of(channel)
            client.writer.write(talk)
            await client.ended()
            client.close()
            await until(lambda: len(channel.connections) == 0)

    run(scenario())


@over_both_loops
def test_a_connection_that_moves_nothing_is_closed_and_one_that_does_is_kept(loop: str) -> None:
    async def scenario() -> None:
        limits = GuardLimits(idle_seconds=0.5)
        async with (
            Site(echo).served() as site,
            guarded(Wires({PUBLIC: site}), limits=limits) as (_, channel),
            asking(channel, "site.example") as idle,
            asking(channel, "site.example") as busy,
        ):
            ended = asyncio.ensure_future(idle.ended())
            while not ended.done():
                busy.writer.write(b"x")
                await busy.reader.readexactly(1)
            assert len(channel.connections) == 1

    run(scenario(), loop)


def test_one_that_has_half_ended_is_closed_sooner() -> None:
    async def scenario() -> None:
        silent = asyncio.Event()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            await silent.wait()

        limits = GuardLimits(idle_seconds=2.0)
        async with (
            Site(talk).served() as site,
            guarded(Wires({PUBLIC: site}), limits=limits) as (_, channel),
            asking(channel, "site.example") as whole,
            asking(channel, "site.example") as half,
        ):
            half.writer.write_eof()
            await half.ended()
            assert len(channel.connections) == 1
            assert not whole.reader.at_eof()
            silent.set()

    run(scenario())


def test_a_session_has_a_few_names_under_way_at_once() -> None:
    class Counting(Names):
        under_way = most = 0

        async def resolve(self, name: str) -> list[IpAddress]:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            await asyncio.sleep(0.01)
            self.under_way -= 1
            return [PUBLIC]

    async def scenario() -> None:
        names = Counting()
        async with guarded(names=names, limits=GuardLimits(lookups_at_once=2)) as (_, channel):
            clients = [await Client.of(channel) for _ in range(12)]
            async with asyncio.TaskGroup() as group:
                for number, client in enumerate(clients):
                    group.create_task(client.ask(f"site{number}.example", 80))
            for client in clients:
                client.close()
        assert names.most == 2

    run(scenario())


def test_a_browser_that_goes_away_while_its_site_is_dialled_ends_the_dialling() -> None:
    async def scenario() -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def connect(address: IpAddress, port: int, protocol: ProtocolFactory) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        guard = NetworkGuard(NetworkRules(), Names(), connect=connect)
        channel = await guard.open_channel()
        client = await Client.of(channel)
        asking_for_it = asyncio.ensure_future(client.ask(str(PUBLIC), 80))
        await begun.wait()
        await channel.close()
        assert ended.is_set()
        assert len(channel.connections) == 0
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await asking_for_it
        client.close()
        await guard.close()

    run(scenario())


class End(asyncio.Protocol):
    """Gives its dialling up at a moment: as it is asked for, or as it is connected."""

    dialling: asyncio.Future[None]
    transport: asyncio.Transport

    def __init__(self, moment: str) -> None:
        self._moment = moment
        self.connected = self.lost = False

    def asked_for(self) -> "End":
        if self._moment == "asked for":
            self.dialling.cancel()
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.connected = True
        if self._moment == "connected":
            self.dialling.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


@over_both_loops
@for_each("moment", ["asked for", "connected"])
def test_a_dialling_that_is_given_up_too_late_ends_connected_and_tells_of_the_loss(
    loop: str, moment: str
) -> None:
    async def scenario() -> None:
        end = End(moment)
        async with Site(echo).served() as site:
            connecting = connect_directly(ip_address("127.0.0.1"), site.port, end.asked_for)
            end.dialling = asyncio.ensure_future(connecting)
            with pytest.raises(asyncio.CancelledError):
                await end.dialling
            assert end.connected
            end.transport.abort()
            await until(lambda: end.lost)

    run(scenario(), loop)


@over_both_loops
def test_closing_ends_everything_in_whatever_state_it_is(loop: str) -> None:
    async def scenario() -> None:
        async with Site(pour).served() as site:
            before = _open_files()
            limits = GuardLimits(step_bytes=1 << 40)
            guard = NetworkGuard(
                NetworkRules(),
                Names(site_example=[[str(PUBLIC)]]),
                connect=Wires({PUBLIC: site}).connect,
                limits=limits,
            )
            channels = [await guard.open_channel() for _ in range(3)]
            clients = [await Client.of(channel) for channel in channels for _ in range(4)]
            for client in clients[::2]:
                await client.ask("site.example", 80)
            await channels[0].close()
            await channels[0].close()
            await guard.close()
            assert [len(channel.connections) for channel in channels] == [0, 0, 0]
            assert not guard.rules.forbidden
            for client in clients:
                await client.ended()
                client.close()
            for channel in channels:
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", channel.port), 5).close()
            await until(lambda: site.left == site.visits == 6)
            await until(lambda: _open_files() <= before)

    run(scenario(), loop)


def test_a_channel_listens_on_loopback_only() -> None:
    async def scenario() -> None:
        async with guarded() as (_, channel):
            assert channel.proxy_server == f"socks5://127.0.0.1:{channel.port}"
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", channel.port), 5).close()

    run(scenario())
