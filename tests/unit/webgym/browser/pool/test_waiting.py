"""Callers who wait for a place: in order, bounded, and no place is lost."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from webgym.browser.pool.waiting import Waiting


def run(scenario: Callable[[Waiting[int], list[int]], Awaitable[None]]) -> None:
    async def main() -> None:
        given_back: list[int] = []
        async with asyncio.timeout(10):
            await scenario(Waiting(3, given_back.append), given_back)

    asyncio.run(main())


def soon() -> float:
    return asyncio.get_running_loop().time() + 5


async def begun(waiting: Waiting[int], count: int) -> list["asyncio.Task[int]"]:
    tasks = [asyncio.ensure_future(waiting.wait(soon())) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


def test_places_go_to_callers_in_the_order_in_which_they_came() -> None:
    async def scenario(waiting: Waiting[int], _: list[int]) -> None:
        callers = await begun(waiting, 3)
        places = iter([1, 2, None])
        waiting.serve(lambda: next(places))
        assert await asyncio.gather(*callers[:2]) == [1, 2]
        assert len(waiting) == 1
        waiting.serve(lambda: 3)
        assert await callers[2] == 3

    run(scenario)


def test_the_queue_is_bounded() -> None:
    async def scenario(waiting: Waiting[int], _: list[int]) -> None:
        callers = await begun(waiting, 3)
        assert waiting.full
        waiting.serve(lambda: 1)
        await asyncio.gather(*callers)
        assert not waiting.full

    run(scenario)


def test_nobody_waits_beyond_the_deadline() -> None:
    async def scenario(waiting: Waiting[int], given_back: list[int]) -> None:
        with pytest.raises(TimeoutError):
            await waiting.wait(asyncio.get_running_loop().time() + 0.01)
        assert len(waiting) == 0
        assert given_back == []

    run(scenario)


def test_a_caller_who_leaves_is_passed_over() -> None:
    async def scenario(waiting: Waiting[int], given_back: list[int]) -> None:
        first, second = await begun(waiting, 2)
        first.cancel()
        places = iter([1, None])
        waiting.serve(lambda: next(places))
        assert await second == 1
        assert given_back == []

    run(scenario)


def test_a_place_handed_to_a_caller_who_is_just_leaving_is_given_back() -> None:
    async def scenario(waiting: Waiting[int], given_back: list[int]) -> None:
        (caller,) = await begun(waiting, 1)
        waiting.serve(lambda: 1)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert given_back == [1]

    run(scenario)


def test_all_callers_can_be_told_to_go() -> None:
    async def scenario(waiting: Waiting[int], _: list[int]) -> None:
        callers = await begun(waiting, 2)
        waiting.fail(lambda: ValueError("closed"))
        assert len(waiting) == 0
        for caller in callers:
            with pytest.raises(ValueError, match="closed"):
                await caller

    run(scenario)
