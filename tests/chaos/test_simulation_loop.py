"""The simulated clock: waiting takes no time, and a loop that does not end is an error."""

import asyncio
import time
from contextlib import suppress

import pytest

from tests.simulation.loop import DeadlockError, LivelockError, SimulatedLoop


def test_waiting_moves_the_clock_and_takes_no_time() -> None:
    async def wait() -> float:
        await asyncio.sleep(3600.0)
        return asyncio.get_running_loop().time()

    assert SimulatedLoop().run(wait()) == 3600.0


def test_timers_fire_in_the_order_of_their_times() -> None:
    async def race() -> list[str]:
        finished: list[str] = []

        async def runner(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            finished.append(name)

        async with asyncio.TaskGroup() as group:
            group.create_task(runner("late", 2.0))
            group.create_task(runner("early", 1.0))
        return finished

    assert SimulatedLoop().run(race()) == ["early", "late"]


def test_a_wait_for_nothing_is_a_deadlock() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match="nothing is scheduled"):
        SimulatedLoop().run(wait())


def test_a_loop_that_never_rests_is_a_livelock() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110 - it shall not rest
            await asyncio.sleep(0)

    async def dawdle() -> None:
        for _ in range(1000):
            await asyncio.sleep(100_000.0)

    with pytest.raises(LivelockError, match="still busy"):
        SimulatedLoop().run(spin())
    with pytest.raises(LivelockError, match="still busy"):
        SimulatedLoop().run(dawdle())


def test_a_task_that_ignores_its_cancellation_does_not_keep_the_run_from_ending() -> None:
    async def deaf() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1000.0)

    async def leave() -> str:
        asyncio.get_running_loop().create_task(deaf())
        await asyncio.sleep(0)
        return "left"

    assert SimulatedLoop().run(leave()) == "left"


def test_a_kill_ends_the_run_before_anything_else_happens() -> None:
    class Killed(BaseException):
        pass

    loop = SimulatedLoop()
    seen: list[str] = []

    async def live() -> None:
        loop.call_later(1.0, loop.kill, Killed())
        loop.call_later(1.5, seen.append, "still alive")
        await asyncio.sleep(10.0)

    with pytest.raises(Killed):
        loop.run(live())
    assert seen == []


def test_errors_in_callbacks_are_kept() -> None:
    def fail() -> None:
        raise ValueError("lost")

    async def main() -> None:
        asyncio.get_running_loop().call_soon(fail)
        await asyncio.sleep(1.0)

    loop = SimulatedLoop()
    loop.run(main())
    assert len(loop.complaints) == 1
    assert "lost" in loop.complaints[0]


def test_threads_are_refused() -> None:
    async def main() -> None:
        await asyncio.to_thread(time.sleep, 0)

    with pytest.raises(RuntimeError, match="no threads"):
        SimulatedLoop().run(main())
