"""A limit does what `asyncio.timeout` does: every case is run with both, on both event loops."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest
import uvloop

from rollgym.servers.limit import LONG as LONG_LIMIT
from rollgym.servers.limit import LOOK_INTERVAL, Limit
from tests.cases import for_each

T = TypeVar("T")
Body = Callable[[], Awaitable[T]]
Bounded = Callable[[float, Body[Any]], Awaitable[Any]]
Scenario = Callable[[Bounded], Coroutine[Any, Any, object]]
SHORT, LONG = 0.002, 30.0


async def with_limit(seconds: float, body: Body[T]) -> T:
    with Limit(seconds):
        return await body()


async def with_timeout(seconds: float, body: Body[T]) -> T:
    async with asyncio.timeout(seconds):
        return await body()


async def sleep() -> None:
    await asyncio.sleep(LONG)


async def outcome(work: Awaitable[object]) -> str:
    """How it ended, and whether the task is still to be cancelled."""
    task = asyncio.current_task()
    assert task is not None
    try:
        ended = str(await work)
    except BaseException as error:  # noqa: BLE001
        ended = type(error).__name__
    return f"{ended}, {task.cancelling()} cancellations"


async def in_time(bounded: Bounded) -> object:
    async def body() -> str:
        await asyncio.sleep(0)
        return "result"

    return await bounded(LONG, body)


async def without_an_await(bounded: Bounded) -> object:
    async def body() -> str:
        return "result"

    return await bounded(0, body)


async def too_slow(bounded: Bounded) -> object:
    return await bounded(SHORT, sleep)


async def no_time_at_all(bounded: Bounded) -> object:
    return await bounded(0, sleep)


async def less_than_no_time(bounded: Bounded) -> object:
    return await bounded(-1, sleep)


async def for_ever(bounded: Bounded) -> object:
    async def body() -> str:
        await asyncio.sleep(SHORT)
        return "result"

    return await bounded(math.inf, body)


async def an_error_in_time(bounded: Bounded) -> object:
    async def body() -> None:
        raise KeyError

    return await bounded(LONG, body)


async def a_timeout_of_the_bodys_own(bounded: Bounded) -> object:
    async def body() -> None:
        raise TimeoutError

    return await bounded(LONG, body)


async def a_cancellation_that_is_swallowed(bounded: Bounded) -> object:
    async def body() -> str:
        try:
            await sleep()
        except asyncio.CancelledError:
            return "result"
        return ""

    return await bounded(SHORT, body)


async def a_cancellation_that_becomes_an_error(bounded: Bounded) -> object:
    async def body() -> None:
        try:
            await sleep()
        finally:
            raise KeyError

    return await bounded(SHORT, body)


async def cancelled_from_outside(bounded: Bounded) -> object:
    _cancel_in(0)
    return await bounded(LONG, sleep)


async def cancelled_from_outside_at_the_same_moment(bounded: Bounded) -> object:
    _cancel_in(0)
    return await bounded(0, sleep)


async def cancelled_from_outside_while_it_expires(bounded: Bounded) -> object:
    async def body() -> None:
        try:
            await sleep()
        except asyncio.CancelledError:
            _cancel_in(0)
            await sleep()

    return await bounded(SHORT, body)


async def inner_expires(bounded: Bounded) -> object:
    async def body() -> str:
        inner = await outcome(bounded(SHORT, sleep))
        await asyncio.sleep(0)
        return inner

    return await bounded(LONG, body)


async def outer_expires(bounded: Bounded) -> object:
    return await bounded(SHORT, lambda: bounded(LONG, sleep))


async def both_expire(bounded: Bounded) -> object:
    return await bounded(0, lambda: bounded(0, sleep))


async def both_expire_and_outside_cancels(bounded: Bounded) -> object:
    _cancel_in(0)
    return await bounded(0, lambda: bounded(0, sleep))


async def one_after_the_other(bounded: Bounded) -> object:
    return [await outcome(bounded(SHORT, sleep)) for _ in range(3)]


async def around_a_group(bounded: Bounded) -> object:
    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(sleep())

    return await bounded(SHORT, body)


async def around_a_group_that_fails(bounded: Bounded) -> object:
    async def fail() -> None:
        raise KeyError

    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(sleep())
            group.create_task(fail())

    # In a task of its own: before Python 3.13 such a group leaves a cancellation counted.
    ended = await asyncio.create_task(outcome(bounded(LONG, body)))
    return ended.partition(",")[0]


async def in_a_task_that_is_being_cancelled(bounded: Bounded) -> object:
    _cancel_in(0)
    try:
        await sleep()
    except asyncio.CancelledError:
        return await outcome(bounded(SHORT, sleep))
    return None


def _cancel_in(seconds: float) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(seconds, task.cancel)


EXPECTED: dict[Scenario, str] = {
    in_time: "result, 0 cancellations",
    without_an_await: "result, 0 cancellations",
    too_slow: "TimeoutError, 0 cancellations",
    no_time_at_all: "TimeoutError, 0 cancellations",
    less_than_no_time: "TimeoutError, 0 cancellations",
    for_ever: "result, 0 cancellations",
    an_error_in_time: "KeyError, 0 cancellations",
    a_timeout_of_the_bodys_own: "TimeoutError, 0 cancellations",
    a_cancellation_that_is_swallowed: "result, 0 cancellations",
    a_cancellation_that_becomes_an_error: "KeyError, 0 cancellations",
    cancelled_from_outside: "CancelledError, 1 cancellations",
    cancelled_from_outside_at_the_same_moment: "CancelledError, 1 cancellations",
    cancelled_from_outside_while_it_expires: "CancelledError, 1 cancellations",
    inner_expires: "TimeoutError, 0 cancellations, 0 cancellations",
    outer_expires: "TimeoutError, 0 cancellations",
    both_expire: "TimeoutError, 0 cancellations",
    both_expire_and_outside_cancels: "CancelledError, 1 cancellations",
    one_after_the_other: f"{['TimeoutError, 0 cancellations'] * 3}, 0 cancellations",
    around_a_group: "TimeoutError, 0 cancellations",
    around_a_group_that_fails: "ExceptionGroup, 0 cancellations",
    in_a_task_that_is_being_cancelled: ("TimeoutError, 1 cancellations, 1 cancellations"),
}
on_both_loops = pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
NewLoop = Callable[[], asyncio.AbstractEventLoop]


def run(new_loop: NewLoop, work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


@on_both_loops
@for_each("scenario", EXPECTED)
def test_a_limit_ends_as_a_timeout_would(new_loop: NewLoop, scenario: Scenario) -> None:
    theirs = run(new_loop, outcome(scenario(with_timeout)))
    ours = run(new_loop, outcome(scenario(with_limit)))
    assert ours == theirs == EXPECTED[scenario]


@on_both_loops
def test_a_limit_knows_whether_it_expired(new_loop: NewLoop) -> None:
    async def scenario() -> list[bool]:
        kept, broken = Limit(LONG), Limit(0)
        with kept:
            await asyncio.sleep(0)
        with pytest.raises(TimeoutError), broken:
            await sleep()
        return [kept.expired, broken.expired]

    assert run(new_loop, scenario()) == [False, True]


@on_both_loops
def test_a_timeout_has_the_cancellation_as_its_cause(new_loop: NewLoop) -> None:
    async def scenario() -> TimeoutError:
        with pytest.raises(TimeoutError) as raised:
            await with_limit(0, sleep)
        return raised.value

    assert isinstance(run(new_loop, scenario()).__cause__, asyncio.CancelledError)


@for_each("seconds", [LONG, LONG_LIMIT / 2])
def test_limits_that_were_kept_leave_no_timer_behind(seconds: float) -> None:
    async def scenario() -> list[asyncio.TimerHandle]:
        loop = asyncio.get_running_loop()
        for _ in range(10):
            with Limit(seconds):
                await asyncio.sleep(0)
        await asyncio.sleep(3 * LOOK_INTERVAL)
        timers: list[asyncio.TimerHandle] = getattr(loop, "_scheduled")  # noqa: B009
        return [timer for timer in timers if not timer.cancelled()]

    assert asyncio.run(scenario()) == []


def test_a_limit_does_not_cancel_after_its_block() -> None:
    async def scenario() -> str:
        with Limit(SHORT):
            pass
        await asyncio.sleep(5 * SHORT)
        return "undisturbed"

    assert asyncio.run(scenario()) == "undisturbed"


def test_a_limit_needs_a_task() -> None:
    with pytest.raises(RuntimeError), Limit(1):
        pass


@on_both_loops
def test_a_long_limit_runs_out_like_a_short_one(
    new_loop: NewLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollgym.servers.limit.LONG", 0.0)

    async def scenario() -> str:
        async with asyncio.TaskGroup() as group:
            slow = [group.create_task(outcome(with_limit(SHORT, sleep))) for _ in range(3)]
            quick = group.create_task(outcome(with_limit(LONG, lambda: asyncio.sleep(SHORT, "ok"))))
        return "; ".join(sorted({task.result() for task in [*slow, quick]}))

    assert run(new_loop, scenario()) == "TimeoutError, 0 cancellations; ok, 0 cancellations"
