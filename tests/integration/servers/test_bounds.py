"""Every wait and every body has a bound, and what is beyond it leaves the server as it was."""

import asyncio
import json

import pytest

from rollgym.records import DeadlineError, Failure, RolloutError, ToolError
from rollgym.servers import Answer, Http, NoAnswerError, ServerClient, http_session, listening
from rollgym.servers.context import working_for
from tests.cases import for_each
from tests.integration.servers.transports import Transport, over_both, reach
from tests.integration.servers.workshop import Workshop, make, seeded, workshop

SMALL = 1000


def words(size: int) -> bytes:
    """Arguments of `echo`, of this size in all."""
    return b'{"words": "%b"}' % (b"x" * (size - 13))


def small_workshop() -> Workshop:
    return workshop(max_request_bytes=SMALL)


@over_both
@for_each(("size", "status"), [(SMALL - 1, 200), (SMALL, 200), (SMALL + 1, 413), (10_000_000, 413)])
def test_a_request_has_a_largest_size(transport: Transport, size: int, status: int) -> None:
    async def ask() -> Answer:
        async with reach(small_workshop(), transport) as client:
            return await client.call("/echo", words(size), error=ToolError, any_status=True)

    answer = asyncio.run(ask())
    assert answer.status == status
    if status == 413:
        assert json.loads(answer.body)["error"]["message"] == (
            "the request is larger than 1000 bytes, the limit of workshop; raise max_request_bytes "
            "in its configuration"
        )


@over_both
@for_each(("path", "method"), [("/nowhere", "POST"), ("/echo", "PUT")])
def test_a_request_that_is_too_large_is_so_wherever_it_goes(
    transport: Transport, path: str, method: str
) -> None:
    async def ask() -> Answer:
        async with reach(small_workshop(), transport) as client:
            return await client.call(
                path, words(SMALL + 1), error=ToolError, any_status=True, method=method
            )

    assert asyncio.run(ask()).status == 413


@over_both
@for_each("size", [SMALL + 1, 3_000_000])
def test_requests_after_one_that_was_too_large_are_answered(
    transport: Transport, size: int
) -> None:
    async def ask() -> list[int]:
        async with reach(small_workshop(), transport) as client:
            sizes = [size, 20, size, 20, 20]
            asked = [
                await client.call("/echo", words(each), error=ToolError, any_status=True)
                for each in sizes
            ]
            return [answer.status for answer in asked]

    assert asyncio.run(ask()) == [413, 200, 413, 200, 200]


@over_both
def test_a_request_that_takes_too_long_is_a_timeout(transport: Transport) -> None:
    async def scenario() -> None:
        server = workshop(request_timeout=0.1)
        async with reach(server, transport) as client, asyncio.timeout(60):
            jar = await seeded(client)
            with pytest.raises(
                DeadlineError, match="workshop did not answer /hang within 0.1 s, its request_time"
            ) as raised:
                await client.post("/hang", {}, jar)
            assert Failure.of(raised.value).retryable
            assert server.gauge.cancelled == 1
            assert (await client.post("/add", {"amount": 1}, jar)).status == 200

    asyncio.run(scenario())


@over_both
@for_each("within", [0.0, -1.0])
def test_nothing_is_asked_when_no_time_is_left(transport: Transport, within: float) -> None:
    async def scenario() -> None:
        server = workshop()
        async with reach(server, transport) as client:
            jar = await seeded(client)
            with pytest.raises(DeadlineError, match="/add was not sent to workshop"):
                await client.call(
                    "/add",
                    b'{"amount": 1}',
                    error=ToolError,
                    any_status=True,
                    jar=jar,
                    within=within,
                )
            now = asyncio.get_running_loop().time()
            with (
                working_for("1/2", now),
                pytest.raises(DeadlineError, match="the deadline has passed"),
            ):
                await client.call(
                    "/add", b'{"amount": 1}', error=ToolError, any_status=True, jar=jar
                )
            assert server.benches[0].total == 0

    asyncio.run(scenario())


def test_a_server_that_is_not_there_gives_no_answer() -> None:
    async def scenario() -> RolloutError:
        async with listening(workshop()) as port:
            url = f"http://127.0.0.1:{port}"
        async with http_session() as session:
            gone = ServerClient("workshop", [Http(url, session)])
            with pytest.raises(ToolError, match="workshop gave no answer: http://") as raised:
                await gone.call("/echo", b"", error=ToolError, any_status=True)
            return raised.value

    error = asyncio.run(scenario())
    assert error.retryable
    assert isinstance(error.__cause__, NoAnswerError)


@over_both
def test_many_sessions_at_once_are_served(transport: Transport) -> None:
    async def rollout(client: ServerClient, number: int) -> float:
        jar = await seeded(client)
        for _ in range(2):
            await client.post("/add", {"amount": number}, jar)
        row = {"expected": 2 * number, "response": {"output": []}}
        reward: float = json.loads((await client.post("/verify", row, jar)).body)["reward"]
        return reward

    async def scenario() -> list[float]:
        server = make(Workshop, "workshop")
        async with reach(server, transport) as client:
            return await asyncio.gather(*[rollout(client, number) for number in range(100)])

    assert asyncio.run(scenario()) == [1.0] * 100
