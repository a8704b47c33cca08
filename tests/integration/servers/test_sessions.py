"""Sessions over both transports: begun, kept apart, given back, and never leaked."""

import asyncio
import json
from typing import Any

import pytest

from rollgym.records import EnvironmentSessionError, Failure, FailureKind, RolloutError
from rollgym.servers import Answer, CookieJar, ServerClient, resources
from rollgym.servers.sessions import Sessions
from tests.cases import for_each
from tests.integration.servers.transports import Transport, over_both, reach
from tests.integration.servers.workshop import (
    Bench,
    Json,
    Order,
    Workshop,
    make,
    open_shop,
    said,
    seeded,
    task,
    until,
    workshop,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def with_clock(lifetime: float, **settings: Any) -> tuple[Workshop, Clock]:
    server, clock = workshop(session_lifetime=lifetime, **settings), Clock()
    server._sessions = Sessions(server.name, lifetime, server.config.max_sessions, clock)
    return server, clock


async def add(client: ServerClient, jar: CookieJar, amount: int = 1) -> int:
    answer = await client.post("/add", {"amount": amount}, jar)
    total: int = json.loads(answer.body)["total"]
    return total


async def verify(client: ServerClient, jar: CookieJar, text: str = "done") -> Answer:
    return await client.post("/verify", {"response": said(text)}, jar)


async def refused(client: ServerClient, jar: CookieJar) -> str:
    """What is said to a caller whose session there is not."""
    with pytest.raises(EnvironmentSessionError) as raised:
        await add(client, jar)
    assert Failure.of(raised.value).retryable
    return str(raised.value)


@over_both
def test_sessions_are_kept_apart(transport: Transport) -> None:
    async def scenario() -> None:
        async with reach(workshop(), transport) as client:
            jars = [await seeded(client) for _ in range(3)]
            for _ in range(2):
                for number, jar in enumerate(jars):
                    await add(client, jar, number)
            assert [await add(client, jar, 0) for jar in jars] == [0, 2, 4]

    asyncio.run(scenario())


@over_both
def test_a_session_is_given_back_when_it_is_verified(transport: Transport) -> None:
    async def scenario() -> None:
        server = workshop()
        async with reach(server, transport) as client:
            jar = await seeded(client)
            copy = CookieJar(jar.cookies)
            assert len(server._sessions) == 1
            await verify(client, jar)
            assert (len(server._sessions), server.benches[0].closed) == (0, 1)
            assert jar.cookies == {}
            assert "does not have this session (any more)" in await refused(client, copy)
        assert server.benches[0].closed == 1

    asyncio.run(scenario())


@over_both
def test_a_session_outlives_a_verifier_that_fails(transport: Transport) -> None:
    """So that the same rollout can be verified again, or closed."""

    async def scenario() -> None:
        server = workshop()
        async with reach(server, transport) as client:
            jar = await seeded(client)
            with pytest.raises(RolloutError):
                await verify(client, jar, "raise")
            assert await add(client, jar) == 1
            assert (await verify(client, jar)).status == 200

    asyncio.run(scenario())


@over_both
def test_a_session_can_be_given_back_unverified(transport: Transport) -> None:
    async def scenario() -> None:
        server = workshop()
        async with reach(server, transport) as client:
            jar = await seeded(client)
            for _ in range(2):
                assert (await client.post("/close_session", {}, jar)).status == 200
            assert (len(server._sessions), server.benches[0].closed, jar.cookies) == (0, 1, {})

    asyncio.run(scenario())


@over_both
@for_each("steps", [[["break"]], [["tool", "give_up", {}]], [["leave rubbish"]]])
def test_a_failed_rollout_gives_its_session_back(transport: Transport, steps: Any) -> None:
    async def scenario() -> None:
        async with open_shop(transport) as shop:
            with pytest.raises(RolloutError):
                await shop.run(task(["tool", "add", {"amount": 1}], *steps))
            assert len(shop.workshop._sessions) == 0
            assert [bench.closed for bench in shop.workshop.benches] == [1]

    asyncio.run(scenario())


@over_both
def test_a_rollout_whose_verifier_fails_gives_its_session_back(transport: Transport) -> None:
    async def scenario() -> None:
        async with open_shop(transport) as shop:
            with pytest.raises(RolloutError, match="the scales are broken"):
                await shop.run(task(says="raise"))
            assert [bench.closed for bench in shop.workshop.benches] == [1]

    asyncio.run(scenario())


@over_both
def test_a_session_that_nobody_uses_expires(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "EXPIRY_INTERVAL", 0.001)

    async def scenario() -> None:
        server, clock = with_clock(60)
        async with reach(server, transport) as client, asyncio.timeout(60):
            unused, used = await seeded(client), await seeded(client)
            clock.now += 59
            await add(client, used)
            clock.now += 1
            await until(lambda: server.benches[0].closed == 1)
            assert "unused for 60 s" in await refused(client, unused)
            assert await add(client, used) == 2
            assert [bench.closed for bench in server.benches] == [1, 0]

    asyncio.run(scenario())


@over_both
def test_a_session_does_not_expire_during_a_call(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "EXPIRY_INTERVAL", 0.001)

    async def scenario() -> None:
        server, clock = with_clock(60)
        async with reach(server, transport) as client, asyncio.timeout(60):
            jar, other = await seeded(client), await seeded(client)
            calling = asyncio.ensure_future(client.post("/hang", {}, jar))
            await server.gauge.began.wait()
            clock.now += 1000
            await until(lambda: server.benches[1].closed == 1)
            assert server.benches[0].closed == 0
            calling.cancel()
            await server.gauge.ended.wait()
            clock.now += 59
            assert await add(client, jar) == 1
            assert "does not have" in await refused(client, other)

    asyncio.run(scenario())


@over_both
def test_a_session_needs_its_own_cookie(transport: Transport) -> None:
    async def scenario() -> None:
        async with (
            reach(workshop(), transport) as client,
            reach(make(Workshop, "workshop"), transport) as other,
            reach(make(Workshop, "annex"), transport) as annex,
        ):
            jar = await seeded(client)
            ((name, value),) = jar.cookies.items()
            identifier, _, signature = value.partition(".")
            changed = value[:-1] + ("0" if value[-1] != "0" else "1")
            foreign = (await seeded(other)).cookies[name]
            forged = [changed, identifier, f"{identifier}.", signature, ".", "ü", foreign]
            for cookie in forged:
                assert "did not issue this session cookie" in await refused(
                    client, CookieJar({name: cookie})
                )
            for cookies in ({}, {name: ""}, {"session": value}, (await seeded(annex)).cookies):
                assert "without a session cookie" in await refused(client, CookieJar(cookies))
            assert await add(client, jar) == 1

    asyncio.run(scenario())


def test_a_cookie_that_is_no_text_is_refused_like_any_other() -> None:
    async def scenario() -> None:
        async with reach(workshop(), Transport.IN_PROCESS) as client:
            ((name, value),) = (await seeded(client)).cookies.items()
            for cookie in ("\udcff", f"{value}\udcff", f"\udcff.{value}"):
                assert "did not issue" in await refused(client, CookieJar({name: cookie}))

    asyncio.run(scenario())


@over_both
def test_there_are_only_so_many_sessions(transport: Transport) -> None:
    async def scenario() -> None:
        server = workshop(max_sessions=2)
        async with reach(server, transport) as client:
            jars = [await seeded(client) for _ in range(2)]
            with pytest.raises(EnvironmentSessionError, match="2 open sessions.*max_sessions"):
                await seeded(client)
            assert len(server.benches) == 2
            await verify(client, jars[0])
            assert await add(client, await seeded(client)) == 1

    asyncio.run(scenario())


@over_both
def test_sessions_that_nobody_uses_make_room(transport: Transport) -> None:
    async def scenario() -> None:
        server, clock = with_clock(60, max_sessions=1)
        async with reach(server, transport) as client:
            await seeded(client)
            clock.now += 60
            await seeded(client)
            assert [bench.closed for bench in server.benches] == [1, 0]

    asyncio.run(scenario())


@over_both
def test_a_state_for_which_there_is_no_room_is_closed(transport: Transport) -> None:
    """Sessions are seeded side by side: the last room may be taken while a state is made."""

    class Slow(Workshop):
        async def seed_session(self, task: Order) -> Bench:
            bench = await super().seed_session(task)
            await self.meeting.wait()
            return bench

    async def scenario() -> None:
        server: Slow = make(Slow, "workshop", max_sessions=2)
        async with reach(server, transport) as client, asyncio.timeout(60):
            seeding = [client.post("/seed_session", {}) for _ in range(3)]
            results = await asyncio.gather(*seeding, return_exceptions=True)
            refusals = [each for each in results if isinstance(each, BaseException)]
            assert [type(refusal) for refusal in refusals] == [EnvironmentSessionError]
            assert sorted(bench.closed for bench in server.benches) == [0, 0, 1]
        assert [bench.closed for bench in server.benches] == [1, 1, 1]

    asyncio.run(scenario())


@over_both
def test_the_servers_end_closes_every_session(transport: Transport) -> None:
    async def scenario() -> None:
        server = workshop()
        async with reach(server, transport) as client:
            for _ in range(3):
                await seeded(client)
        assert [bench.closed for bench in server.benches] == [1, 1, 1]

    asyncio.run(scenario())


class Jammed(Workshop):
    """Its first bench cannot be put away."""

    async def close_session(self, state: Bench) -> None:
        await super().close_session(state)
        if state is self.benches[0]:
            raise OSError("the lock is jammed")


@over_both
def test_a_session_that_cannot_be_closed_does_not_cost_the_verdict(
    transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()

    async def scenario() -> None:
        server: Jammed = make(Jammed, "workshop")
        async with reach(server, transport) as client:
            answer = await verify(client, await seeded(client))
            assert json.loads(answer.body)["reward"] == 1.0

    asyncio.run(scenario())
    (record,) = caplog.records
    assert record.getMessage() == "a session of workshop could not be closed"
    assert "the lock is jammed" in caplog.text


@over_both
def test_one_session_that_cannot_be_closed_does_not_keep_the_others_open(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "EXPIRY_INTERVAL", 0.001)

    async def scenario() -> None:
        server: Jammed = make(Jammed, "workshop", session_lifetime=60)
        clock = Clock()
        server._sessions = Sessions(server.name, 60, 100, clock)
        async with reach(server, transport) as client, asyncio.timeout(60):
            for _ in range(3):
                await seeded(client)
                await seeded(client)
                clock.now += 60
                await until(lambda: len(server._sessions) == 0)
            await seeded(client)
        assert [bench.closed for bench in server.benches] == [1] * 7

    asyncio.run(scenario())


@over_both
def test_a_session_is_closed_to_the_end_even_when_the_caller_leaves(transport: Transport) -> None:
    class Tidy(Workshop):
        closing: asyncio.Event
        may_close: asyncio.Event

        async def close_session(self, state: Bench) -> None:
            self.closing.set()
            await self.may_close.wait()
            await super().close_session(state)

    async def scenario() -> None:
        server: Tidy = make(Tidy, "workshop")
        server.closing, server.may_close = asyncio.Event(), asyncio.Event()
        async with reach(server, transport) as client, asyncio.timeout(60):
            verifying = asyncio.ensure_future(verify(client, await seeded(client)))
            await server.closing.wait()
            verifying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await verifying
            asyncio.get_running_loop().call_later(0.02, server.may_close.set)
        assert [bench.closed for bench in server.benches] == [1]

    asyncio.run(scenario())


@over_both
def test_health_counts_the_open_sessions(transport: Transport) -> None:
    async def health(client: ServerClient) -> Json:
        answer = await client.call(
            "/healthz", b"", error=RolloutError, any_status=True, method="GET"
        )
        said: Json = json.loads(answer.body)
        return said

    async def scenario() -> None:
        async with open_shop(transport) as shop:
            client = shop.clients.client("workshop")
            await seeded(client)
            told = await health(client)
            assert told.pop("tools")[:2] == ["add", "echo"]
            assert told == {
                "status": "ok",
                "name": "workshop",
                "type": "resources_servers",
                "stateful": True,
                "sessions": 1,
            }
            for name, kind in (
                ("agent", "responses_api_agents"),
                ("model", "responses_api_models"),
            ):
                told = await health(shop.clients.client(name))
                assert told == {"status": "ok", "name": name, "type": kind}

    asyncio.run(scenario())


@over_both
def test_a_session_is_of_no_kind_but_the_environments(transport: Transport) -> None:
    async def scenario() -> None:
        async with reach(workshop(), transport) as client:
            with pytest.raises(RolloutError) as raised:
                await add(client, CookieJar())
            assert Failure.of(raised.value).kind is FailureKind.ENVIRONMENT

    asyncio.run(scenario())
