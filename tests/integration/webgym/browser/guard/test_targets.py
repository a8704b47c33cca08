"""Which targets are reached, and what is said of those that are not."""

import asyncio
import errno

from tests.cases import for_each
from tests.integration.webgym.browser.guard.network import (
    OTHER_PUBLIC,
    PUBLIC,
    Client,
    Names,
    Site,
    Wires,
    asking,
    echo,
    guarded,
    run,
    until,
)
from webgym.browser.guard.addresses import IpAddress
from webgym.browser.guard.dialler import GuardLimits, ProtocolFactory
from webgym.browser.guard.guard import NetworkGuard
from webgym.browser.guard.resolver import CachingResolver
from webgym.browser.guard.rules import NetworkRules
from webgym.browser.guard.socks import WELCOME, SocksReply

ANY = ["0.0.0.0/0", "::/0"]


@for_each(
    "host",
    [
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "localhost",
        "LOCALHOST.",
        "shop.localhost",
        "inner.example",
        "mixed.example",
        "mixed.sixth.example",
        "disguised.example",
        "10.0.0.1",
        "0.0.0.0",
        "169.254.169.254",
        "metadata.google.internal",
        "Metadata.Google.Internal.",
    ],
)
def test_a_refused_target_is_not_dialled_and_the_refusal_is_recorded(host: str) -> None:
    names = Names(
        inner_example=[["192.168.1.1"]],
        mixed_example=[[str(PUBLIC), "10.0.0.1"]],
        mixed_sixth_example=[[str(PUBLIC), "fd00::1"]],
        disguised_example=[["2002:a9fe:a9fe::"]],
    )
    wires = Wires()

    async def scenario() -> None:
        async with guarded(wires, names) as (_, channel):
            async with asking(channel, host, 8080) as client:
                assert client.reply == SocksReply.NOT_ALLOWED
                assert await client.ended() == b""
            assert wires.dialled == []
            (refusal,) = channel.rejections.take()
            assert refusal.host in (host.lower().removesuffix("."), "127.0.0.1")
            assert refusal.port == 8080
            assert "never allowed" in refusal.reason or "--allow-network" in refusal.reason
            assert channel.rejections.take() == []
            assert channel.failures.take() == []

    run(scenario())


@for_each("host", ["169.254.169.254", "fe80::1", "meta.example", "0.0.0.0"])
def test_what_is_never_allowed_stays_refused_when_everything_is_allowed(host: str) -> None:
    wires = Wires()

    async def scenario() -> None:
        names = Names(meta_example=[["100.100.100.200"]])
        async with guarded(wires, names, ANY) as (_, channel):
            async with asking(channel, host) as client:
                assert client.reply == SocksReply.NOT_ALLOWED
            assert wires.dialled == []

    run(scenario())


def test_a_name_that_changes_its_mind_leads_to_the_address_that_was_checked() -> None:
    names = Names(rebinding_example=[[str(PUBLIC)], ["127.0.0.1"]])

    async def scenario() -> None:
        async with Site(echo).served() as site:
            wires = Wires({PUBLIC: site})
            async with guarded(wires, names) as (_, channel):
                async with asking(channel, "rebinding.example") as client:
                    assert client.reply == SocksReply.GRANTED
                assert names.asked == ["rebinding.example"]
                assert wires.dialled == [(str(PUBLIC), 80)]
                async with asking(channel, "rebinding.example") as client:
                    assert client.reply == SocksReply.NOT_ALLOWED
                assert wires.dialled == [(str(PUBLIC), 80)]

    run(scenario())


def test_a_remembered_answer_is_judged_again_at_each_use() -> None:
    names = Names(inner_example=[["127.0.0.1"]])

    async def scenario() -> None:
        wires = Wires()
        resolver = CachingResolver(names)
        guard = NetworkGuard(NetworkRules.parse(["127.0.0.1:80"]), resolver, connect=wires.connect)
        channel = await guard.open_channel()
        for port, reply in ((80, SocksReply.CONNECTION_REFUSED), (81, SocksReply.NOT_ALLOWED)):
            async with asking(channel, "inner.example", port) as client:
                assert client.reply == reply
        assert names.asked == ["inner.example"]
        await guard.close()
        assert names.closed

    run(scenario())


def test_a_session_cannot_reach_the_ports_of_the_guard() -> None:
    async def scenario() -> None:
        wires = Wires()
        async with guarded(wires, allow=["loopback"]) as (guard, channel):
            other = await guard.open_channel()
            for port in (channel.port, other.port):
                for host in ("127.0.0.1", "localhost", "127.0.0.2", "::1"):
                    async with asking(channel, host, port) as client:
                        assert client.reply == SocksReply.NOT_ALLOWED
            assert wires.dialled == []
            assert "the browser server itself" in channel.rejections.take()[0].reason
            await other.close()
            async with asking(channel, "127.0.0.1", other.port) as client:
                assert client.reply == SocksReply.CONNECTION_REFUSED

    run(scenario())


def test_the_checked_addresses_are_tried_in_turn() -> None:
    names = Names(many_example=[["93.184.216.1", "93.184.216.2", str(PUBLIC)]])

    async def scenario() -> None:
        async with Site(echo).served() as site:
            wires = Wires({PUBLIC: site})
            async with (
                guarded(wires, names) as (_, channel),
                asking(channel, "many.example", 443) as client,
            ):
                assert client.reply == SocksReply.GRANTED
            assert [address for address, _ in wires.dialled] == [
                "93.184.216.1",
                "93.184.216.2",
                str(PUBLIC),
            ]

    run(scenario())


def test_a_name_with_hundreds_of_addresses_gets_a_few_tries() -> None:
    names = Names(many_example=[[f"93.184.216.{last}" for last in range(250)]])
    wires = Wires()

    async def scenario() -> None:
        async with (
            guarded(wires, names, limits=GuardLimits(addresses_tried=3)) as (_, channel),
            asking(channel, "many.example") as client,
        ):
            assert client.reply == SocksReply.CONNECTION_REFUSED
        assert len(wires.dialled) == 3

    run(scenario())


@for_each(
    ("error", "reply"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), SocksReply.CONNECTION_REFUSED),
        (OSError(errno.ENETUNREACH, "no network"), SocksReply.NETWORK_UNREACHABLE),
        (OSError(errno.EHOSTUNREACH, "no host"), SocksReply.HOST_UNREACHABLE),
        (TimeoutError(errno.ETIMEDOUT, "timed out"), SocksReply.HOST_UNREACHABLE),
        (OSError(errno.EMFILE, "too many open files"), SocksReply.FAILED),
        (OSError("something"), SocksReply.FAILED),
    ],
)
def test_a_failed_connection_is_a_failure_and_no_refusal(error: OSError, reply: SocksReply) -> None:
    async def scenario() -> None:
        wires = Wires()
        wires.broken[PUBLIC] = error
        async with guarded(wires) as (_, channel):
            async with asking(channel, "site.example", 443) as client:
                assert client.reply == reply
            (failure,) = channel.failures.take()
            assert (failure.host, failure.port) == ("site.example", 443)
            assert f"{PUBLIC} port 443" in failure.reason
            assert not channel.rejections.targets

    run(scenario())


def test_a_name_without_address_is_a_failure() -> None:
    async def scenario() -> None:
        async with guarded() as (_, channel):
            async with asking(channel, "nowhere.example") as client:
                assert client.reply == SocksReply.HOST_UNREACHABLE
            assert channel.failures.take()[0].reason == "nowhere.example has no address"

    run(scenario())


def test_a_site_and_a_resolver_that_never_answer_have_a_deadline() -> None:
    async def never(address: IpAddress, port: int, protocol: ProtocolFactory) -> None:
        await asyncio.Event().wait()

    class Silent(Names):
        async def resolve(self, name: str) -> list[IpAddress]:
            await asyncio.Event().wait()
            return []

    async def scenario() -> None:
        limits = GuardLimits(connect_seconds=0.05, resolve_seconds=0.05)
        guard = NetworkGuard(NetworkRules(), Silent(), connect=never, limits=limits)
        channel = await guard.open_channel()
        for host in (str(PUBLIC), "site.example"):
            async with asking(channel, host) as client:
                assert client.reply == SocksReply.HOST_UNREACHABLE
        assert [failure.reason for failure in channel.failures.take()] == [
            f"{PUBLIC} port 80 did not answer within 0.05 s",
            "the address of site.example was not found within 0.05 s",
        ]
        await guard.close()

    run(scenario())


@for_each(
    ("talk", "answer"),
    [
        (
            b"\x05\x01\x00\x05\x02\x00\x01\x01\x01\x01\x01\x00\x50",
            WELCOME + SocksReply.COMMAND_UNKNOWN.wire,
        ),
        (
            b"\x05\x01\x00\x05\x03\x00\x01\x01\x01\x01\x01\x00\x50",
            WELCOME + SocksReply.COMMAND_UNKNOWN.wire,
        ),
        (b"\x05\x01\x02", b"\x05\xff"),
        (b"GET / HTTP/1.1\r\n\r\n", b""),
    ],
)
def test_nothing_but_connections_is_served(talk: bytes, answer: bytes) -> None:
    async def scenario() -> None:
        async with guarded() as (_, channel):
            client = await Client.of(channel)
            client.writer.write(talk)
            said = await client.ended()
            client.close()
            assert said == answer
            await until(lambda: len(channel.connections) == 0)

    run(scenario())


def test_a_literal_public_address_needs_no_resolver() -> None:
    async def scenario() -> None:
        async with Site(echo).served() as site:
            wires, names = Wires({PUBLIC: site, OTHER_PUBLIC: site}), Names()
            async with (
                guarded(wires, names) as (_, channel),
                asking(channel, str(OTHER_PUBLIC)) as client,
            ):
                assert client.reply == SocksReply.GRANTED
            assert names.asked == []
            assert wires.dialled == [(str(OTHER_PUBLIC), 80)]

    run(scenario())
