"""The queue for sessions: order, rejection, and that no grant is lost or given twice."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webgym.browser.contract.errors import NoSessionError
from webgym.browser.queue import DEFAULT_RETRY, SessionQueue


class Counter:
    """Where grants come from; each is a number, and never one that is out."""

    def __init__(self, free: int = 0, size: int = 100) -> None:
        self.free = list(range(free))
        self.out: set[int] = set()
        self.line = SessionQueue[int](size, self._take, self.give, lambda: "all are taken")

    def _take(self) -> int | None:
        if not self.free:
            return None
        grant = self.free.pop()
        assert grant not in self.out
        self.out.add(grant)
        return grant

    def give(self, grant: int) -> None:
        self.out.remove(grant)
        self.free.append(grant)

    def add(self, grant: int) -> None:
        self.free.append(grant)
        self.line.serve()

    async def wait(self, client: str = "client", seconds: float = 10) -> int:
        return await self.line.wait(client, asyncio.get_running_loop().time() + seconds)


def over_time(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scenario()

    asyncio.run(bounded())


async def waiting(counter: Counter, *clients: str) -> list["asyncio.Task[int]"]:
    """One request after the other, all in line."""
    tasks = []
    for client in clients:
        tasks.append(asyncio.ensure_future(counter.wait(client)))
        await asyncio.sleep(0)
    return tasks


def test_who_comes_while_something_is_free_does_not_wait() -> None:
    async def scenario() -> None:
        counter = Counter(2)
        assert {await counter.wait(), await counter.wait()} == {0, 1}
        assert len(counter.line) == 0

    over_time(scenario)


def test_clients_take_turns_whatever_they_ask_for() -> None:
    async def scenario() -> None:
        counter, served = Counter(), list[str]()

        async def ask(client: str) -> None:
            await counter.wait(client)
            served.append(client)

        tasks = []
        for client in [*"aaaaaa", *"bbb", "c"]:
            tasks.append(asyncio.ensure_future(ask(client)))
            await asyncio.sleep(0)
        assert len(counter.line) == 10
        for grant in range(10):
            counter.add(grant)
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        assert "".join(served) == "abcababaaa"

    over_time(scenario)


def test_within_a_client_the_first_comes_first() -> None:
    async def scenario() -> None:
        counter = Counter()
        first, second = await waiting(counter, "a", "a")
        counter.add(7)
        assert await first == 7
        assert not second.done()
        counter.add(8)
        assert await second == 8

    over_time(scenario)


def test_a_request_waits_no_longer_than_its_timeout() -> None:
    async def scenario() -> None:
        counter = Counter()
        with pytest.raises(
            NoSessionError, match=r"no session was free within [0-9.]+ s: all are taken"
        ) as raised:
            await counter.wait(seconds=0.05)
        assert raised.value.retry_after == DEFAULT_RETRY
        assert len(counter.line) == 0
        counter.add(1)
        assert await counter.wait() == 1

    over_time(scenario)


def test_who_does_not_want_to_wait_is_refused_at_once() -> None:
    async def scenario() -> None:
        counter = Counter(1)
        assert await counter.wait(seconds=0) == 0
        with pytest.raises(NoSessionError, match="no session is free: all are taken"):
            await counter.wait(seconds=0)

    over_time(scenario)


def test_a_full_line_refuses_and_says_when_to_come_back() -> None:
    async def scenario() -> None:
        counter = Counter(size=2)
        tasks = await waiting(counter, "a", "a")
        with pytest.raises(NoSessionError, match="2 requests wait already") as raised:
            await counter.wait("a")
        assert raised.value.retry_after == DEFAULT_RETRY
        assert len(counter.line) == 2
        for grant in range(2):
            counter.add(grant)
        await asyncio.gather(*tasks)

    over_time(scenario)


def test_a_full_line_makes_room_for_who_has_fewer_places() -> None:
    async def scenario() -> None:
        counter = Counter(size=3)
        flood = await waiting(counter, "a", "a", "a")
        (newcomer,) = await waiting(counter, "b")
        with pytest.raises(NoSessionError, match="other clients have fewer requests"):
            await flood[2]
        with pytest.raises(NoSessionError, match="3 requests wait already"):
            await counter.wait("b")
        for grant in range(3):
            counter.add(grant)
        assert sorted(await asyncio.gather(*flood[:2], newcomer)) == [0, 1, 2]

    over_time(scenario)


def test_who_hangs_up_leaves_the_line_at_once() -> None:
    async def scenario() -> None:
        counter = Counter()
        tasks = await waiting(counter, "a", "b")
        tasks[0].cancel()
        await asyncio.sleep(0)
        assert len(counter.line) == 1
        counter.add(5)
        assert await tasks[1] == 5

    over_time(scenario)


def test_what_was_given_to_one_who_hung_up_goes_to_the_next() -> None:
    async def scenario() -> None:
        counter = Counter()
        first, second = await waiting(counter, "a", "b")
        counter.add(5)
        first.cancel()
        assert await second == 5
        with pytest.raises(asyncio.CancelledError):
            await first
        assert counter.out == {5}

    over_time(scenario)


def test_who_got_nothing_by_its_turn_is_first_again() -> None:
    async def scenario() -> None:
        counter = Counter(size=2)
        tasks = await waiting(counter, "a", "b")
        until = asyncio.get_running_loop().time() + 10
        again = asyncio.ensure_future(counter.line.wait("c", until, ahead=True))
        await asyncio.sleep(0)
        counter.add(1)
        assert await again == 1
        for grant in (2, 3):
            counter.add(grant)
        await asyncio.gather(*tasks)

    over_time(scenario)


def test_a_closed_line_sends_everybody_away() -> None:
    async def scenario() -> None:
        counter = Counter()
        tasks = await waiting(counter, "a", "b")
        counter.line.close("the server is stopping")
        for asking in (*tasks, counter.wait("c")):
            with pytest.raises(NoSessionError, match="the server is stopping"):
                await asking

    over_time(scenario)


def test_the_retry_time_follows_the_service_rate() -> None:
    async def scenario() -> None:
        counter = Counter()
        for grant in range(20):
            (task,) = await waiting(counter, "a")
            await asyncio.sleep(0.005)
            counter.add(grant)
            await task
        tasks = await waiting(counter, *("a" for _ in range(100)))
        assert 1 <= counter.line.retry_after() <= 5
        for grant in range(20, 120):
            counter.add(grant)
        await asyncio.gather(*tasks)

    over_time(scenario)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 8))
def test_grants_are_neither_lost_nor_given_twice(seed: int, free: int, size: int) -> None:
    """Random clients that come, hang up, time out, hold a grant for a while and give it back."""
    choice = random.Random(seed)

    async def scenario() -> None:
        counter = Counter(free, size)

        async def client(name: str) -> None:
            try:
                grant = await counter.wait(name, choice.choice([0, 0.001, 5]))
            except NoSessionError:
                return
            try:
                for _ in range(choice.randrange(4)):
                    await asyncio.sleep(0)
            finally:
                counter.give(grant)
                counter.line.serve()

        tasks = []
        for _ in range(60):
            tasks.append(asyncio.ensure_future(client(choice.choice("abc"))))
            for _ in range(choice.randrange(3)):
                await asyncio.sleep(0)
            if choice.random() < 0.3:
                choice.choice(tasks).cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(end is None or isinstance(end, asyncio.CancelledError) for end in ends)
        assert sorted(counter.free) == list(range(free))
        assert len(counter.line) == 0

    over_time(scenario)


def test_a_line_of_no_places_sends_everybody_away() -> None:
    async def scenario() -> None:
        counter = Counter(size=0)
        with pytest.raises(NoSessionError, match="all are taken"):
            await counter.wait()
        counter.add(1)
        assert await counter.wait() == 1

    over_time(scenario)
