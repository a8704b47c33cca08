"""Several endpoints, some of them ill: the calls go where they are answered."""

import asyncio

from rollgym.records import ModelAuthError, ModelUnavailableError
from tests.cases import for_each
from tests.faulty_model import (
    Exchange,
    FaultyModel,
    Step,
    answer,
    error,
    hang,
    reply,
    reset,
    slow,
    unused_port,
)
from tests.integration.servers.endpoints.pools import BODY, failure_of, pool_of, until


def test_calls_are_spread_and_a_dead_endpoint_costs_only_a_few_tries() -> None:
    async def scenario() -> None:
        dead = f"http://127.0.0.1:{unused_port()}/v1"
        async with (
            FaultyModel(otherwise=slow(0.005)) as first,
            FaultyModel(otherwise=slow(0.005)) as second,
            pool_of(dead, first, second, rest_initial=30.0, rest_maximum=30.0) as pool,
        ):
            for _ in range(10):
                await asyncio.gather(*(pool.post("/responses", BODY) for _ in range(20)))
            down, *alive = pool.report().endpoints
            assert (down.ok, down.in_flight) == (0, 0)
            assert down.resting_for > 0
            assert sum(down.failed.values()) <= 20, "only those that were sent before it rested"
            assert sum(each.ok for each in alive) == 200
            assert all(each.ok > 50 for each in alive)

    asyncio.run(scenario())


def test_a_hanging_endpoint_gets_no_more_than_its_share_in_flight() -> None:
    async def scenario() -> None:
        async with (
            FaultyModel(otherwise=hang()) as stuck,
            FaultyModel() as well,
            pool_of(stuck, well, limit=4) as pool,
        ):
            calls = [asyncio.create_task(pool.post("/responses", BODY)) for _ in range(50)]
            await until(lambda: sum(call.done() for call in calls) == 46)
            assert stuck.in_flight == 4
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    asyncio.run(scenario())


def test_a_call_that_fails_at_one_endpoint_succeeds_at_another_without_waiting() -> None:
    async def scenario() -> None:
        async with (
            FaultyModel(otherwise=error(500, "Broken")) as broken,
            FaultyModel(otherwise=reset()) as resetting,
            FaultyModel() as well,
            pool_of(broken, resetting, well, backoff_initial=60.0, backoff_maximum=60.0) as pool,
        ):
            async with asyncio.timeout(60):
                await asyncio.gather(*(pool.post("/responses", BODY) for _ in range(30)))
            assert pool.report().endpoints[2].ok == 30

    asyncio.run(scenario())


def test_an_endpoint_that_asks_for_a_pause_is_left_alone_while_the_others_work() -> None:
    async def scenario() -> None:
        limited = reply(429, headers={"retry-after": "30"})
        async with (
            FaultyModel([limited]) as busy,
            FaultyModel() as free,
            pool_of(busy, free) as pool,
        ):
            for _ in range(20):
                await pool.post("/responses", BODY)
            assert len(busy.requests) == 1
            assert len(free.requests) == 20
            assert 20 < pool.report().endpoints[0].resting_for <= 30

    asyncio.run(scenario())


def test_an_endpoint_that_comes_back_is_found_again() -> None:
    async def scenario() -> None:
        port = unused_port()
        async with FaultyModel() as well, pool_of(f"http://127.0.0.1:{port}/v1", well) as pool:
            await asyncio.gather(*(pool.post("/responses", BODY) for _ in range(10)))
            back = FaultyModel()
            back.port = port
            async with back:

                async def ask() -> None:
                    while not back.requests:
                        await pool.post("/responses", BODY)
                        await asyncio.sleep(0.005)

                async with asyncio.timeout(60):
                    await ask()
                await asyncio.gather(*(pool.post("/responses", BODY) for _ in range(40)))
                assert len(back.requests) >= 15

    asyncio.run(scenario())


def test_while_all_rest_calls_wait_for_the_first_to_wake() -> None:
    async def scenario() -> None:
        pausing = reply(429, headers={"retry-after": "0.2"})
        async with (
            FaultyModel([pausing]) as first,
            FaultyModel([pausing]) as second,
            pool_of(first, second) as pool,
        ):
            loop = asyncio.get_running_loop()
            began = loop.time()
            await pool.post("/responses", BODY)
            assert loop.time() - began >= 0.19
            assert len(first.requests) + len(second.requests) == 3

    asyncio.run(scenario())


def test_a_dead_pool_parks_nobody_for_long() -> None:
    async def scenario() -> None:
        dead = f"http://127.0.0.1:{unused_port()}/v1"
        async with pool_of(dead, max_rest_wait=0.3, rest_initial=30.0, rest_maximum=30.0) as pool:
            async with asyncio.timeout(60):
                failures = await asyncio.gather(
                    *(failure_of(pool.post("/responses", BODY)) for _ in range(50))
                )
            assert {type(failure) for failure in failures} == {ModelUnavailableError}
            late = await failure_of(pool.post("/responses", BODY))
            assert type(late) is ModelUnavailableError
            assert late.retry_after is not None
            assert late.retry_after > 20
            assert "in cooldown" in str(late)
            assert "ConnectionRefusedError" in str(late), "the reason is told to who did not try"

    asyncio.run(scenario())


def test_a_probe_goes_ahead_before_the_others_follow() -> None:
    before_the_answer: list[int] = []

    async def probe(exchange: Exchange) -> bool:
        await asyncio.sleep(0.2)
        before_the_answer.append(len(exchange.model.requests))
        return await answer()(exchange)

    async def scenario() -> None:
        async with (
            FaultyModel([error(500, "Broken")] * 3 + [probe]) as model,
            pool_of(model, rest_initial=0.4, rest_maximum=0.4, max_retries=8) as pool,
        ):
            calls = [asyncio.create_task(pool.post("/responses", BODY)) for _ in range(3)]
            await until(lambda: pool.report().endpoints[0].resting_for > 0)
            calls += [asyncio.create_task(pool.post("/responses", BODY)) for _ in range(30)]
            await asyncio.gather(*calls)
            # A slow machine may let the next probe become due.
            assert before_the_answer[0] in {4, 5}
            assert len(model.requests) == 3 + 33

    asyncio.run(scenario())


@for_each(
    "refusal",
    [
        error(401, "Incorrect API key"),
        error(404, "The model does not exist"),
        error(429, "Quota", code="insufficient_quota"),
    ],
)
def test_an_endpoint_that_refuses_everything_does_not_draw_the_calls(refusal: Step) -> None:
    async def scenario() -> None:
        async with (
            FaultyModel(otherwise=refusal) as misfit,
            FaultyModel(otherwise=slow(0.01)) as well,
            pool_of(misfit, well, rest_initial=30.0, rest_maximum=30.0) as pool,
        ):
            for _ in range(5):
                await asyncio.gather(*(pool.post("/responses", BODY) for _ in range(10)))
            assert len(well.requests) == 50
            assert len(misfit.requests) <= 10

    asyncio.run(scenario())


def test_while_all_rest_for_one_reason_it_is_the_reason_that_calls_end_with() -> None:
    async def scenario() -> None:
        refusal = error(401, "Incorrect API key")
        async with (
            FaultyModel(otherwise=refusal) as a,
            FaultyModel(otherwise=refusal) as b,
            pool_of(a, b, rest_initial=30.0, rest_maximum=30.0, max_rest_wait=0.2) as pool,
        ):
            for _ in range(8):
                failure = await failure_of(pool.post("/responses", BODY))
                assert type(failure) is ModelAuthError
            assert "in cooldown" in str(failure)

    asyncio.run(scenario())


@for_each("tries", [1, 3])
def test_the_error_says_how_many_endpoints_were_tried(tries: int) -> None:
    async def scenario() -> None:
        async with (
            FaultyModel(otherwise=reply(503)) as a,
            FaultyModel(otherwise=reply(503)) as b,
            pool_of(a, b, max_retries=tries - 1) as pool,
        ):
            failure = await failure_of(pool.post("/responses", BODY))
            assert type(failure) is ModelUnavailableError
            expected = "(1 try)" if tries == 1 else "(3 tries at 2 endpoints)"
            assert str(failure).endswith(expected)

    asyncio.run(scenario())
