"""Sessions that are out."""

import asyncio
from typing import Any

import pytest

from tests.integration.webgym.episode.playing import ListedBrowsers
from webgym.browser.contract.errors import NoSessionError
from webgym.client.sessions import TrackedSessions


class Slow(ListedBrowsers):
    """Hands out a session, and takes it back, a little later; one object for each."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once = 0
        self.most_at_once = 0
        self.released: list[object] = []

    async def get(self, lifetime_mins: float = 60, wait_seconds: float = 60) -> ListedBrowsers:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.01)
        self.at_once -= 1
        return ListedBrowsers()

    async def release(self, session: Any) -> None:
        await asyncio.sleep(0.01)
        self.released.append(session)


def test_only_so_many_are_asked_for_at_a_time() -> None:
    async def scenario() -> None:
        slow = Slow()
        held = TrackedSessions(slow, acquiring=2, releasing=2)
        sessions = await asyncio.gather(*(held.get() for _ in range(6)))
        assert (len(sessions), slow.most_at_once) == (6, 2)

    asyncio.run(scenario())


def test_the_wait_for_a_turn_counts_as_a_wait_for_a_session() -> None:
    class Stuck(Slow):
        async def get(self, lifetime_mins: float = 60, wait_seconds: float = 60) -> ListedBrowsers:
            await asyncio.Event().wait()
            raise AssertionError

    async def scenario() -> None:
        held = TrackedSessions(Stuck(), acquiring=1, releasing=1)
        first = asyncio.ensure_future(held.get())
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            with pytest.raises(NoSessionError, match="raise http_pools.allocate"):
                await held.get(wait_seconds=0.05)
        first.cancel()

    asyncio.run(scenario())


def test_who_gives_one_back_does_not_wait_for_that() -> None:
    async def scenario() -> None:
        slow = Slow()
        held = TrackedSessions(slow, acquiring=1, releasing=1)
        session = await held.get()
        await held.release(session)
        assert not slow.released
        await held.release_all(abandoned=True)
        assert slow.released == [session]

    asyncio.run(scenario())


def test_what_is_still_out_is_given_back_once_in_the_end() -> None:
    async def scenario() -> None:
        slow = Slow()
        held = TrackedSessions(slow, acquiring=4, releasing=4)
        sessions = await asyncio.gather(*(held.get() for _ in range(3)))
        await held.release(sessions[0])
        await held.release_all(abandoned=True)
        await held.release(sessions[1])
        assert sorted(map(id, slow.released)) == sorted(map(id, sessions))

    asyncio.run(scenario())
