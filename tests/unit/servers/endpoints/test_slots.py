"""Waiting for room: an event loop, but no I/O."""

import asyncio

from rollgym.servers.endpoints.endpoint import Endpoint
from rollgym.servers.endpoints.slots import NoSlot, SlotQueue
from tests.unit.servers.endpoints.test_choosing import endpoint, put_to_rest

LONG = 60.0


def later(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def waiting(slots: SlotQueue, seconds: float = LONG) -> asyncio.Task[Endpoint | NoSlot]:
    """One more who waits."""
    task = asyncio.create_task(slots.wait(later(seconds)))
    await asyncio.sleep(0)
    return task


def test_one_cancelled_in_the_moment_of_being_served_passes_its_room_on() -> None:
    async def scenario() -> None:
        only = endpoint(limit=1)
        slots = SlotQueue([only], cooldown_wait=LONG)
        assert slots.acquire(later(0)) is only
        first, second = await waiting(slots), await waiting(slots)

        slots.release(only)
        first.cancel()
        assert await second is only
        assert first.cancelled()
        assert (only.in_flight, slots.waiting) == (1, 0)

    asyncio.run(scenario())


def test_nobody_overtakes_who_waits() -> None:
    async def scenario() -> None:
        only = endpoint(limit=1)
        slots = SlotQueue([only], cooldown_wait=LONG)
        slots.acquire(later(0))
        first = await waiting(slots)
        only.in_flight = 0
        assert slots.acquire(later(0)) is None
        first.cancel()
        await asyncio.wait([first])
        assert slots.acquire(later(0)) is only

    asyncio.run(scenario())


def test_who_waits_while_all_are_busy_keeps_waiting_beyond_the_patience_for_rests() -> None:
    async def scenario() -> None:
        only = endpoint(limit=1)
        slots = SlotQueue([only], cooldown_wait=0.01)
        slots.acquire(later(0))
        busy = await waiting(slots)
        await asyncio.sleep(0.05)
        assert not busy.done()
        put_to_rest(only, later(0))
        assert await busy == NoSlot(only)

    asyncio.run(scenario())


def test_the_deadline_ends_the_waiting() -> None:
    async def scenario() -> None:
        only = endpoint(limit=1)
        slots = SlotQueue([only], cooldown_wait=LONG)
        slots.acquire(later(0))
        assert await slots.wait(later(0.02)) == NoSlot()
        assert slots.waiting == 0

    asyncio.run(scenario())


def test_nobody_waits_for_an_endpoint_that_wakes_after_the_deadline() -> None:
    async def scenario() -> None:
        only = endpoint()
        only.health.pause(later(0), 30.0)
        slots = SlotQueue([only], cooldown_wait=LONG)
        async with asyncio.timeout(60):
            assert await slots.wait(later(20.0)) == NoSlot(only)

    asyncio.run(scenario())


def test_an_endpoint_that_wakes_takes_who_waits_for_one_that_is_busy() -> None:
    async def scenario() -> None:
        busy, paused = endpoint("a", limit=1), endpoint("b")
        slots = SlotQueue([busy, paused], cooldown_wait=LONG)
        paused.health.pause(later(0), 0.05)
        assert slots.acquire(later(0)) is busy
        assert await slots.wait(later(LONG)) is paused

    asyncio.run(scenario())


def test_a_closed_line_sends_everybody_away() -> None:
    async def scenario() -> None:
        only = endpoint(limit=1)
        slots = SlotQueue([only], cooldown_wait=LONG)
        slots.acquire(later(0))
        first, second = await waiting(slots), await waiting(slots)
        slots.close()
        assert [await first, await second] == [NoSlot(), NoSlot()]
        slots.release(only)
        assert slots.acquire(later(0)) is None
        assert await slots.wait(later(LONG)) == NoSlot()

    asyncio.run(scenario())
