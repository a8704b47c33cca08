"""Concurrency, deadlines, cancellation and closing, against a real endpoint."""

import asyncio
import json

import pytest

from rollgym.records import DeadlineError, ModelRateLimitError, ModelUnavailableError
from rollgym.servers.context import working_for
from tests.cases import for_each
from tests.faulty_model import Exchange, FaultyModel, answer, error, hang, reply, reset, slow
from tests.integration.servers.endpoints.pools import BODY, failure_of, pool_of, until


def test_the_concurrency_of_an_endpoint_is_never_exceeded_and_is_used() -> None:
    async def scenario() -> None:
        async with FaultyModel(otherwise=slow(0.01)) as model, pool_of(model, limit=4) as pool:
            await asyncio.gather(*(pool.post("/responses", BODY) for _ in range(60)))
            assert model.most_in_flight == 4
            assert pool.report().waiting == 0

    asyncio.run(scenario())


def test_without_a_limit_hundreds_of_requests_are_in_flight_together() -> None:
    crowd = 300

    async def together(exchange: Exchange) -> bool:
        await until(lambda: exchange.model.most_in_flight == crowd)
        return await answer()(exchange)

    async def scenario() -> None:
        async with FaultyModel(otherwise=together) as model, pool_of(model) as pool:
            await asyncio.gather(*(pool.post("/responses", BODY) for _ in range(crowd)))
            assert pool.report().endpoints[0].ok == crowd

    asyncio.run(scenario())


def test_who_waits_is_served_in_the_order_of_arrival_and_not_overtaken() -> None:
    async def scenario() -> None:
        async with FaultyModel(otherwise=slow(0.01)) as model, pool_of(model, limit=1) as pool:

            async def call(number: int) -> None:
                await pool.post("/responses", json.dumps({"n": number}).encode())
                if number < 10:
                    await call(number + 10)

            await asyncio.gather(*(call(number) for number in range(10)))
            assert [request.json["n"] for request in model.requests] == list(range(20))

    asyncio.run(scenario())


def test_a_call_that_is_cancelled_is_seen_to_leave_and_makes_room() -> None:
    async def scenario() -> None:
        async with FaultyModel([hang()]) as model, pool_of(model, limit=1) as pool:
            hung = asyncio.create_task(pool.post("/responses", BODY))
            await until(lambda: model.in_flight == 1)
            waiting = asyncio.create_task(pool.post("/responses", BODY))
            await until(lambda: pool.report().waiting == 1)

            hung.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hung
            await model.see_disconnect()
            await waiting
            report = pool.report().endpoints[0]
            assert (report.in_flight, report.ok, report.cancelled) == (0, 1, 1)

    asyncio.run(scenario())


def test_calls_that_are_cancelled_while_they_wait_leave_nothing_behind() -> None:
    async def scenario() -> None:
        async with FaultyModel([hang()]) as model, pool_of(model, limit=1) as pool:
            first = asyncio.create_task(pool.post("/responses", BODY))
            await until(lambda: model.in_flight == 1)
            waiting = [asyncio.create_task(pool.post("/responses", BODY)) for _ in range(20)]
            last = asyncio.create_task(pool.post("/responses", BODY))
            await until(lambda: pool.report().waiting == 21)
            for call in (*waiting, first):
                call.cancel()
            await last
            assert all(call.cancelled() for call in waiting)
            assert len(model.requests) == 2

    asyncio.run(scenario())


@for_each("given", ["as an argument", "by the context"])
def test_a_deadline_ends_a_call_however_it_was_given(given: str) -> None:
    async def scenario() -> None:
        async with FaultyModel(otherwise=hang()) as model, pool_of(model) as pool:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + 0.2
            if given == "as an argument":
                error = await failure_of(pool.post("/responses", BODY, deadline=deadline))
            else:
                with working_for("task 1", deadline):
                    error = await failure_of(pool.post("/responses", BODY))
            assert type(error) is DeadlineError
            assert loop.time() >= deadline
            await model.see_disconnect()
            assert not pool.report().endpoints[0].resting_for

    asyncio.run(scenario())


def test_a_call_without_any_deadline_ends_all_the_same() -> None:
    async def scenario() -> None:
        async with FaultyModel(otherwise=hang()) as model, pool_of(model, call_timeout=0.1) as pool:
            assert type(await failure_of(pool.post("/responses", BODY))) is DeadlineError

    asyncio.run(scenario())


def test_a_deadline_that_has_passed_sends_nothing() -> None:
    async def scenario() -> None:
        async with FaultyModel() as model, pool_of(model) as pool:
            past = asyncio.get_running_loop().time() - 1
            assert (
                type(await failure_of(pool.post("/responses", BODY, deadline=past)))
                is DeadlineError
            )
            assert not model.requests

    asyncio.run(scenario())


def test_retries_do_not_outlast_the_deadline_and_tell_of_the_fault() -> None:
    async def scenario() -> None:
        async with (
            FaultyModel(otherwise=error(500, "Broken")) as model,
            pool_of(model, max_retries=1000, failures_before_rest=1000) as pool,
        ):
            loop = asyncio.get_running_loop()
            deadline = loop.time() + 0.3
            failure = await failure_of(pool.post("/responses", BODY, deadline=deadline))
            # Where the last try is cut off, that is what happened last.
            assert type(failure) in {ModelUnavailableError, DeadlineError}
            assert "Broken" in str(failure)
            assert loop.time() < deadline + 2
            assert len(model.requests) > 2

    asyncio.run(scenario())


def test_a_wait_that_passes_the_deadline_is_not_begun() -> None:
    async def scenario() -> None:
        step = reply(429, headers={"retry-after": "30"})
        async with FaultyModel([step]) as model, pool_of(model) as pool:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + 20
            limited = await failure_of(pool.post("/responses", BODY, deadline=deadline))
            paused = await failure_of(pool.post("/responses", BODY, deadline=deadline))
            for failure in (limited, paused):
                assert type(failure) is ModelRateLimitError
                assert failure.retry_after is not None
                assert 20 < failure.retry_after <= 30
            assert len(model.requests) == 1
            assert loop.time() < deadline - 10

    asyncio.run(scenario())


def test_a_deadline_in_the_line_is_told_as_such() -> None:
    async def scenario() -> None:
        async with FaultyModel([hang()]) as model, pool_of(model, limit=1) as pool:
            hung = asyncio.create_task(pool.post("/responses", BODY))
            await until(lambda: model.in_flight == 1)
            deadline = asyncio.get_running_loop().time() + 0.05
            failure = await failure_of(pool.post("/responses", BODY, deadline=deadline))
            assert type(failure) is DeadlineError
            assert "max_concurrency" in str(failure)
            assert pool.report().waiting == 0
            hung.cancel()
            await asyncio.gather(hung, return_exceptions=True)

    asyncio.run(scenario())


def test_closing_ends_calls_in_flight_and_in_line_typed() -> None:
    async def scenario() -> None:
        async with FaultyModel(otherwise=hang()) as model:
            pool = pool_of(model, limit=1)
            calls = [asyncio.create_task(failure_of(pool.post("/responses", BODY))) for _ in "ab"]
            await until(lambda: model.in_flight == 1 and pool.report().waiting == 1)
            await pool.close()
            for failure in await asyncio.gather(*calls):
                assert type(failure) is ModelUnavailableError
            late = await failure_of(pool.post("/responses", BODY))
            assert "closed" in str(late)

    asyncio.run(scenario())


def test_closing_ends_a_call_between_two_tries() -> None:
    async def scenario() -> None:
        async with FaultyModel(otherwise=error(500, "Broken")) as model:
            pool = pool_of(model, backoff_initial=0.2, backoff_maximum=0.2, max_retries=1000)
            call = asyncio.create_task(failure_of(pool.post("/responses", BODY)))
            await model.see_request()
            await until(lambda: not pool.report().endpoints[0].in_flight)
            await pool.close()
            failure = await call
            assert type(failure) is ModelUnavailableError
            assert "Broken" in str(failure)

    asyncio.run(scenario())


def test_a_connection_is_used_again() -> None:
    async def scenario() -> None:
        async with FaultyModel([reset()]) as model, pool_of(model) as pool:
            for _ in range(5):
                await pool.post("/responses", BODY)
            ports = {request.port for request in model.requests}
            assert len(ports) == 2

    asyncio.run(scenario())
