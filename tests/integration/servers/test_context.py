"""The rollout's name and deadline reach every server that works for it."""

import asyncio
import json

import pytest

from rollgym.records import ToolError
from rollgym.servers import ServerClient
from rollgym.servers.context import current_deadline, current_rollout, working_for
from tests.cases import for_each
from tests.integration.servers.transports import Transport, over_both, reach
from tests.integration.servers.workshop import Json, open_shop, task, workshop


async def whereabouts(client: ServerClient) -> Json:
    told: Json = json.loads((await client.post("/whereabouts", {})).body)
    return told


def in_seconds(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


@over_both
@for_each(
    "rollout", ["", "12/3", "a b", " a ", "größe/世界", "100%", "%41", "a\r\nx-evil: 1", "a\0b\t"]
)
def test_a_rollouts_name_arrives_as_it_is(transport: Transport, rollout: str) -> None:
    async def ask() -> Json:
        async with reach(workshop(), transport) as client:
            with working_for(rollout):
                return await whereabouts(client)

    assert asyncio.run(ask()) == {"rollout": rollout, "seconds": 1e6}


@over_both
def test_a_rollouts_name_is_cut_where_it_is_too_long(transport: Transport) -> None:
    async def ask() -> Json:
        async with reach(workshop(), transport) as client:
            with working_for("ü" * 10_000):
                return await whereabouts(client)

    assert asyncio.run(ask())["rollout"] == "ü" * 200


@over_both
def test_a_deadline_arrives_as_the_time_that_is_left(transport: Transport) -> None:
    async def ask() -> Json:
        async with reach(workshop(), transport) as client:
            with working_for("12/3", in_seconds(500)):
                return await whereabouts(client)

    assert asyncio.run(ask())["seconds"] == pytest.approx(500, abs=20)


@over_both
def test_the_callee_of_a_callee_knows_them_too(transport: Transport) -> None:
    async def scenario() -> tuple[Json, Json]:
        async with open_shop(transport) as shop:
            with working_for("7/ö", in_seconds(500)):
                verified = await shop.run(task(["model"], ["tool", "whereabouts", {}]))
            output = verified["response"]["output"]
            return shop.model.heard[0], json.loads(output[-2]["output"])

    for told in asyncio.run(scenario()):
        assert told["rollout"] == "7/ö"
        assert told["seconds"] == pytest.approx(500, abs=20)


@over_both
def test_rollouts_side_by_side_are_not_mixed_up(transport: Transport) -> None:
    async def one(client: ServerClient, number: int) -> bool:
        with working_for(f"{number}/0", in_seconds(100 * (number + 1))):
            told = await whereabouts(client)
            await asyncio.sleep(0)
            again = await whereabouts(client)
        right = {f"{number}/0"} == {told["rollout"], again["rollout"]}
        return right and abs(100 * (number + 1) - told["seconds"]) < 50

    async def scenario() -> list[bool]:
        async with reach(workshop(), transport) as client:
            return await asyncio.gather(*[one(client, number) for number in range(50)])

    assert all(asyncio.run(scenario()))


@over_both
def test_what_one_call_knew_the_next_does_not(transport: Transport) -> None:
    async def scenario() -> None:
        async with reach(workshop(), transport) as client:
            with working_for("12/3", in_seconds(500)):
                await whereabouts(client)
            assert (current_rollout(), current_deadline()) == ("", None)
            assert await whereabouts(client) == {"rollout": "", "seconds": 1e6}

    asyncio.run(scenario())


@over_both
def test_a_cancelled_call_leaves_nothing_behind(transport: Transport) -> None:
    async def scenario() -> None:
        server = workshop(session_lifetime=60)
        async with reach(server, transport) as client:
            with working_for("12/3"), pytest.raises(ToolError):
                await client.call("/give_up", b"", error=ToolError, any_status=True)
            assert await whereabouts(client) == {"rollout": "", "seconds": 1e6}

    asyncio.run(scenario())
