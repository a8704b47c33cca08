"""Streams of events through a pool, against a real endpoint."""

import asyncio
from contextlib import aclosing

from rollgym.records import DeadlineError, ModelMalformedError, ModelUnavailableError
from rollgym.servers.endpoints import EndpointPool, PoolStream
from tests.faulty_model import FaultyModel, error, hang, reset, stream
from tests.integration.servers.endpoints.pools import BODY, failure_of, pool_of

EVENT = b'data: {"a": 1}\n\n'


async def opened(pool: EndpointPool) -> PoolStream:
    begun = await pool.stream("/responses", BODY)
    assert isinstance(begun, PoolStream)
    return begun


async def whole(parts: PoolStream) -> bytes:
    async with aclosing(parts):
        return b"".join([part async for part in parts])


def test_a_stream_holds_its_slot_until_it_is_closed_and_leaves_its_connection() -> None:
    async def scenario() -> None:
        script = [error(503, "busy"), stream(EVENT, EVENT), stream(EVENT, then=hang())]
        async with FaultyModel(script) as model, pool_of(model, limit=1) as pool:
            assert await whole(await opened(pool)) == 2 * EVENT
            left = await opened(pool)
            assert await anext(left) == EVENT
            assert pool.report().endpoints[0].in_flight == 1
            await left.aclose()
            await model.see_disconnect()
            assert b"Fine." in await pool.post("/responses", BODY)
            # The first two requests, the stream that ended, and its successor share a connection.
            assert len({request.port for request in model.requests}) == 2
            assert pool.report().endpoints[0].in_flight == 0

    asyncio.run(scenario())


def test_an_endpoint_that_does_not_stream_gives_its_whole_answer() -> None:
    async def scenario() -> None:
        async with FaultyModel() as model, pool_of(model) as pool:
            answer = await pool.stream("/responses", BODY)
            assert isinstance(answer, bytes)
            assert b"Fine." in answer

    asyncio.run(scenario())


def test_a_stream_is_bounded_in_size_and_time_and_never_cut_silently() -> None:
    many = [EVENT * 4096] * 40

    async def scenario() -> None:
        script = [stream(*many), stream(EVENT, then=hang()), stream(EVENT, then=reset())]
        async with (
            FaultyModel(script) as model,
            pool_of(model, max_answer_bytes=1 << 20, request_timeout=0.3, limit=1) as pool,
        ):
            large = await failure_of(whole(await opened(pool)))
            assert isinstance(large, ModelMalformedError)
            assert "max_answer_bytes" in str(large)
            late = await failure_of(whole(await opened(pool)))
            assert isinstance(late, DeadlineError)
            assert "did not end its stream in time (after the stream had begun)" in str(late)
            broken = await failure_of(whole(await opened(pool)))
            assert isinstance(broken, ModelUnavailableError)
            assert "got no complete response" in str(broken)

    asyncio.run(scenario())


def test_a_reader_that_falls_behind_stops_the_endpoint_and_loses_nothing() -> None:
    many = [EVENT * 4096] * 200

    async def scenario() -> None:
        async with FaultyModel([stream(*many)]) as model, pool_of(model) as pool:
            parts = await opened(pool)
            first = await anext(parts)
            await asyncio.sleep(0.05)  # the endpoint would send everything meanwhile
            assert model.in_flight == 1
            assert first + await whole(parts) == b"".join(many)

    asyncio.run(scenario())
