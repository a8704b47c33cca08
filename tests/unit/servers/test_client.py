"""A client of a server: what it makes of answers, and of none."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from rollgym.records import DeadlineError, RolloutError, ToolError
from rollgym.servers import Answer, CookieJar, NoAnswerError, Request, ServerClient
from rollgym.servers.client import EXCERPT
from rollgym.servers.context import working_for
from tests.cases import for_each


class EndpointTransport:
    """A transport that gives one answer, or raises one error, or waits."""

    def __init__(self, answer: Answer | Exception | None) -> None:
        self.answer = answer
        self.seen: list[tuple[Request, float]] = []

    async def __call__(self, request: Request, seconds: float) -> Answer:
        self.seen.append((request, seconds))
        if self.answer is None:
            await asyncio.sleep(300)
        if isinstance(self.answer, Answer):
            return self.answer
        raise self.answer or AssertionError


def call(answer: Answer | Exception | None, **options: Any) -> Answer:
    client = ServerClient("shop", [EndpointTransport(answer)])

    async def ask() -> Answer:
        return await client.call("/tool", b"{}", error=ToolError, **options)

    return asyncio.run(ask())


def raised(answer: Answer | Exception | None, **options: Any) -> RolloutError:
    with pytest.raises(RolloutError) as caught:
        call(answer, **options)
    return caught.value


@for_each("status", [200, 201, 299])
def test_an_answer_in_order_is_given(status: int) -> None:
    answer = Answer(status, b"hello")
    assert call(answer) is answer


@for_each(
    ("status", "retryable"),
    [(301, None), (400, False), (404, None), (422, False), (429, True), (500, True), (503, True)],
)
def test_any_other_answer_is_the_error_of_the_call(status: int, retryable: bool | None) -> None:
    error = raised(Answer(status, "näh".encode()))
    assert type(error) is ToolError
    assert str(error) == f"shop answered /tool with HTTP {status}: näh"
    assert error.retryable is retryable


def test_a_long_answer_is_cut_in_the_message() -> None:
    assert len(str(raised(Answer(500, b"x" * 100_000)))) < EXCERPT + 200


@for_each(
    ("said", "wait"), [("3", 3.0), ("0.5", 0.5), ("", None), ("Wed, 21 Oct 2015 07:28 GMT", None)]
)
def test_the_wait_that_was_asked_for_is_kept(said: str, wait: float | None) -> None:
    assert raised(Answer(429, headers={"retry-after": said})).retry_after == wait


def test_no_answer_is_the_error_of_the_call_and_worth_repeating() -> None:
    error = raised(NoAnswerError("connection refused"))
    assert str(error) == "shop gave no answer: connection refused"
    assert error.retryable
    assert isinstance(error.__cause__, NoAnswerError)


def test_no_answer_in_time_is_the_error_of_the_call() -> None:
    error = raised(None, within=0.01)
    assert type(error) is ToolError
    assert str(error) == "shop gave no answer to /tool within 0.01 s"
    assert error.retryable


def test_no_answer_before_the_rollouts_deadline_is_a_timeout() -> None:
    async def ask() -> None:
        client = ServerClient("shop", [EndpointTransport(None)])
        with working_for("1/0", asyncio.get_running_loop().time() + 0.01):
            await client.call("/tool", b"{}", error=ToolError, within=60)

    with pytest.raises(DeadlineError, match="shop gave no answer to /tool within 0.0"):
        asyncio.run(ask())


def test_a_transport_knows_how_long_its_caller_waits() -> None:
    async def ask() -> float:
        wire = EndpointTransport(Answer(200))
        client = ServerClient("shop", [wire])
        with working_for("1/0", asyncio.get_running_loop().time() + 20):
            await client.call("/tool", b"{}", error=ToolError, any_status=True, within=60)
        return wire.seen[0][1]

    assert asyncio.run(ask()) == pytest.approx(20, abs=5)


def test_a_cookie_is_kept_also_from_an_answer_that_is_an_error() -> None:
    jar = CookieJar()
    raised(Answer(500, cookies={"session": "1"}), jar=jar)
    assert jar.cookies == {"session": "1"}


def test_a_request_is_not_changed_by_later_answers() -> None:
    wire = EndpointTransport(Answer(200, cookies={"session": "2"}))
    jar = CookieJar({"session": "1"})

    async def ask() -> None:
        client = ServerClient("shop", [wire])
        for _ in range(2):
            await client.post("/tool", {}, jar)

    asyncio.run(ask())
    assert [dict(request.cookies) for request, _ in wire.seen] == [
        {"session": "1"},
        {"session": "2"},
    ]


def test_a_session_stays_at_its_replica_and_new_ones_go_where_the_fewest_are() -> None:
    wires = [EndpointTransport(Answer(200)) for _ in range(3)]

    async def ask() -> None:
        client = ServerClient("shop", wires)
        kept = [client.one() for _ in range(6)]
        for one in kept:
            await one.post("/tool", {})
            assert one.one() is one
        assert [len(wire.seen) for wire in wires] == [2, 2, 2]
        del kept[0], kept[2], one  # 0, 3: of the same replica
        assert await first_of(client) == await first_of(client)

    async def first_of(client: ServerClient) -> int:
        before = [len(wire.seen) for wire in wires]
        await client.one().post("/tool", {})
        return [len(wire.seen) > had for wire, had in zip(wires, before, strict=True)].index(True)

    asyncio.run(ask())


def test_a_replica_that_gave_no_answer_gets_no_sessions_until_it_answers() -> None:
    async def ask() -> None:
        down, up = EndpointTransport(NoAnswerError("refused")), EndpointTransport(Answer(200))
        client = ServerClient("shop", [down, up])
        for _ in range(2):
            with suppress(RolloutError):
                await client.one().post("/tool", {})
        assert len(down.seen) == 1
        down.answer = Answer(200)
        sessions = [client.one() for _ in range(3)]
        for session in sessions:
            await session.post("/tool", {})
        assert {request.path for request, _ in down.seen[1:]} <= {"/healthz"}

        async with asyncio.timeout(30):
            while "/tool" not in {request.path for request, _ in down.seen[1:]}:
                await client.one().post("/tool", {})
                await asyncio.sleep(0.01)

    asyncio.run(ask())
