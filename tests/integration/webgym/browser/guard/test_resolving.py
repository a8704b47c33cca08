"""Names become addresses: from the system, and from memory."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.integration.webgym.browser.guard.network import PUBLIC, Names, run, until
from webgym.browser.guard.addresses import IpAddress, read_address
from webgym.browser.guard.resolver import CachingResolver, SystemResolver, UnresolvedError


class Slow(Names):
    """Answers when it is told to."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        super().__init__(**answers)
        self.may_answer = asyncio.Event()
        self.cancelled = 0

    async def resolve(self, name: str) -> Sequence[IpAddress]:
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return await super().resolve(name)


def test_the_system_knows_the_names_of_this_machine() -> None:
    async def scenario() -> None:
        resolver = SystemResolver()
        try:
            assert read_address("127.0.0.1") in await resolver.resolve("localhost")
            assert await resolver.resolve("0x7f.1") == (read_address("127.0.0.1"),)
            with pytest.raises(UnresolvedError, match=r"no-such-name\.invalid has no address"):
                await resolver.resolve("no-such-name.invalid")
            with pytest.raises(UnresolvedError):
                await resolver.resolve("a" * 64 + ".invalid")
        finally:
            await resolver.close()

    run(scenario())


def test_an_answer_is_remembered_for_a_while() -> None:
    async def scenario() -> None:
        names = Names(a_example=[["1.1.1.1"], ["2.2.2.2"]])
        resolver = CachingResolver(names, keep_seconds=0.2)
        assert await resolver.resolve("a.example") == [read_address("1.1.1.1")]
        assert await resolver.resolve("a.example") == [read_address("1.1.1.1")]
        assert names.asked == ["a.example"]
        await asyncio.sleep(0.25)
        assert await resolver.resolve("a.example") == [read_address("2.2.2.2")]
        await resolver.close()

    run(scenario())


def test_a_name_without_an_address_is_cached_too() -> None:
    async def scenario() -> None:
        names = Names()
        resolver = CachingResolver(names)
        for _ in range(3):
            with pytest.raises(UnresolvedError, match="has no address"):
                await resolver.resolve("a.example")
        assert names.asked == ["a.example"]
        await resolver.close()

    run(scenario())


def test_memory_is_bounded() -> None:
    async def scenario() -> None:
        names = Names(**{f"n{number}": [[str(PUBLIC)]] for number in range(10)})
        resolver = CachingResolver(names, most_names=4)
        for _ in range(2):
            for number in range(10):
                await resolver.resolve(f"n{number}")
        assert len(names.asked) == 20
        await resolver.resolve("n9")
        assert len(names.asked) == 20
        await resolver.close()

    run(scenario())


def test_many_who_wait_for_a_name_ask_once_and_one_may_leave() -> None:
    async def scenario() -> None:
        names = Slow(a_example=[[str(PUBLIC)]])
        resolver = CachingResolver(names)
        waiting = [asyncio.ensure_future(resolver.resolve("a.example")) for _ in range(5)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        names.may_answer.set()
        assert await asyncio.gather(*waiting[1:]) == [[PUBLIC]] * 4
        assert names.asked == ["a.example"]
        assert waiting[0].cancelled()
        await resolver.close()

    run(scenario())


def test_a_question_ends_with_the_last_who_waits_for_it() -> None:
    async def scenario() -> None:
        names = Slow(a_example=[[str(PUBLIC)]])
        resolver = CachingResolver(names)
        waiting = [asyncio.ensure_future(resolver.resolve("a.example")) for _ in range(3)]
        await asyncio.sleep(0)
        for each in waiting:
            each.cancel()
        await until(lambda: names.cancelled == 1)
        names.may_answer.set()
        assert await resolver.resolve("a.example") == [PUBLIC]
        await resolver.close()

    run(scenario())


def test_closing_ends_the_questions_on_their_way() -> None:
    async def scenario() -> None:
        names = Slow()
        resolver = CachingResolver(names)
        waiting = asyncio.ensure_future(resolver.resolve("a.example"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await resolver.close()
        assert names.cancelled == 1
        assert names.closed
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(scenario())
