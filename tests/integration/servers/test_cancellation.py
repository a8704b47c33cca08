"""Whoever asked goes away: what it asked for ends, down to the last server, and nothing is kept."""

import asyncio

import pytest

from rollgym.records import (
    DeadlineError,
    Failure,
    FailureKind,
    ModelUnavailableError,
    RolloutError,
    ToolError,
    VerifierError,
)
from rollgym.servers import Episode, http_server
from rollgym.servers.context import working_for
from tests.cases import for_each
from tests.integration.servers.transports import Transport, over_both, reach
from tests.integration.servers.workshop import (
    Bench,
    Courier,
    Gauge,
    Json,
    Shop,
    Workshop,
    open_shop,
    seeded,
    task,
    until,
    workshop,
)

IN_A_MOMENT = 0.2
HANGING = {
    "a tool": task(["tool", "hang", {}]),
    "tools side by side": task(["tools", "hang", {}, 3]),
    "the model": task(["model"]),
    "the verifier": task(says="hang"),
}
over_every_wait = pytest.mark.parametrize("waiting_for", list(HANGING))


def gauge_of(shop: Shop, waiting_for: str) -> Gauge:
    """That of the server which the rollout hangs in."""
    shop.model.answer = shop.model.hang
    return shop.model.gauge if waiting_for == "the model" else shop.workshop.gauge


async def everything_ended(shop: Shop, gauge: Gauge) -> None:
    await until(lambda: gauge.cancelled == gauge.begun > 0)
    await until(lambda: [bench.closed for bench in shop.workshop.benches] == [1])
    assert len(shop.workshop._sessions) == 0


@over_both
def test_a_caller_that_is_cancelled_cancels_the_tool(transport: Transport) -> None:
    async def scenario() -> None:
        server = workshop()
        async with reach(server, transport) as client, asyncio.timeout(60):
            calling = asyncio.ensure_future(client.post("/hang", {}, await seeded(client)))
            await server.gauge.began.wait()
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
            await server.gauge.ended.wait()
            assert server.gauge.cancelled == 1

    asyncio.run(scenario())


@over_both
def test_a_caller_that_waits_no_longer_cancels_the_tool(transport: Transport) -> None:
    async def scenario() -> None:
        server = workshop()
        async with reach(server, transport) as client, asyncio.timeout(60):
            jar = await seeded(client)
            with pytest.raises(ToolError, match="workshop gave no answer to /hang within 0.2 s"):
                await client.call(
                    "/hang", b"", error=ToolError, any_status=True, jar=jar, within=IN_A_MOMENT
                )
            await server.gauge.ended.wait()
            assert server.gauge.cancelled == 1
            assert (await client.post("/add", {"amount": 1}, jar)).status == 200

    asyncio.run(scenario())


@over_both
@over_every_wait
def test_a_rollout_that_is_cancelled_ends_everywhere(
    transport: Transport, waiting_for: str
) -> None:
    async def scenario() -> None:
        async with open_shop(transport) as shop:
            gauge = gauge_of(shop, waiting_for)
            running = asyncio.ensure_future(shop.run(HANGING[waiting_for]))
            await gauge.began.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await everything_ended(shop, gauge)

    asyncio.run(scenario())


@over_both
@over_every_wait
def test_a_rollout_past_its_deadline_ends_everywhere(
    transport: Transport, waiting_for: str
) -> None:
    """The session too is given back, although by then no time is left."""

    async def scenario() -> None:
        async with open_shop(transport) as shop:
            gauge = gauge_of(shop, waiting_for)
            deadline = asyncio.get_running_loop().time() + IN_A_MOMENT
            with working_for("1/2", deadline), pytest.raises(DeadlineError, match="no answer"):
                await shop.run(HANGING[waiting_for])
            await everything_ended(shop, gauge)

    asyncio.run(scenario())


@over_both
@for_each("waiting_for", ["a tool", "the model"])
def test_a_rollout_that_takes_an_agent_too_long_ends_everywhere(
    transport: Transport, waiting_for: str
) -> None:
    async def scenario() -> None:
        async with open_shop(transport, agent={"request_timeout": IN_A_MOMENT}) as shop:
            gauge = gauge_of(shop, waiting_for)
            with pytest.raises(DeadlineError, match=r"agent did not answer /run within 0.2 s"):
                await shop.run(HANGING[waiting_for])
            await everything_ended(shop, gauge)

    asyncio.run(scenario())


@over_both
@for_each(
    ("waiting_for", "limit", "error"),
    [
        ("a tool", "tool_timeout", ToolError),
        ("tools side by side", "tool_timeout", ToolError),
        ("the model", "model_timeout", ModelUnavailableError),
        ("the verifier", "verify_timeout", VerifierError),
    ],
)
def test_each_call_of_an_agent_has_its_limit(
    transport: Transport, waiting_for: str, limit: str, error: type[RolloutError]
) -> None:
    async def scenario() -> None:
        async with open_shop(transport, agent={limit: IN_A_MOMENT}) as shop:
            gauge = gauge_of(shop, waiting_for)
            with pytest.raises(error, match="gave no answer to .* within 0.2 s") as raised:
                await shop.run(HANGING[waiting_for])
            # What is finished and only lacks its verdict is not run again.
            assert Failure.of(raised.value).retryable is (error is not VerifierError)
            await everything_ended(shop, gauge)

    asyncio.run(scenario())


class Duet(Courier):
    """Calls a tool that hangs, and beside it one that ends the rollout."""

    began: asyncio.Event

    async def responses(self, params: Json, episode: Episode) -> Json:
        async with asyncio.TaskGroup() as group:
            group.create_task(episode.call_tool("hang", b"{}"))
            await self.began.wait()
            group.create_task(episode.call_tool("give_up", b"{}"))
        return {}


@over_both
def test_a_tool_that_fails_the_rollout_cancels_those_beside_it(transport: Transport) -> None:
    async def scenario() -> None:
        async with open_shop(transport, Duet) as shop:
            assert isinstance(shop.agent, Duet)
            shop.agent.began = shop.workshop.gauge.began
            with pytest.raises(ToolError, match="the saw is gone"):
                await shop.run(task())
            await everything_ended(shop, shop.workshop.gauge)

    asyncio.run(scenario())


class Slow(Workshop):
    """Takes its time to put a bench away."""

    async def close_session(self, state: Bench) -> None:
        await asyncio.sleep(0.02)
        await super().close_session(state)


@over_both
def test_a_session_is_given_back_even_when_the_agent_is_cancelled_twice(
    transport: Transport,
) -> None:
    async def scenario() -> None:
        async with open_shop(transport, workshop_type=Slow) as shop:
            running = asyncio.ensure_future(shop.run(HANGING["a tool"]))
            await shop.workshop.gauge.began.wait()
            running.cancel()
            await asyncio.sleep(0.01)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await everything_ended(shop, shop.workshop.gauge)

    asyncio.run(scenario())


@over_both
def test_a_model_that_is_slow_and_then_answers_is_waited_for(transport: Transport) -> None:
    async def scenario() -> None:
        async with open_shop(transport) as shop:

            async def ponder(params: Json) -> bytes:
                await asyncio.sleep(IN_A_MOMENT)
                return await shop.model.say_done(params)

            shop.model.answer = ponder
            assert (await shop.run(task(["model"])))["reward"] == 1.0

    asyncio.run(scenario())


def test_a_server_that_stops_listening_cancels_what_it_works_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "SHUTDOWN_TIMEOUT", IN_A_MOMENT)

    async def scenario() -> Failure:
        server = workshop()
        async with asyncio.timeout(60):
            async with reach(server, Transport.HTTP) as client:
                jar = await seeded(client)
                calling = asyncio.ensure_future(
                    client.call("/hang", b"", error=ToolError, any_status=True, jar=jar)
                )
                await server.gauge.began.wait()
            assert server.gauge.cancelled == 1
            with pytest.raises(ToolError, match="workshop gave no answer") as raised:
                await calling
            return Failure.of(raised.value)

    failure = asyncio.run(scenario())
    assert (failure.kind, failure.retryable) == (FailureKind.TOOL, True)
