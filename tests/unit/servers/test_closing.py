"""Letting go of what sessions held: always, once, and in bounded time."""

import asyncio

import pytest

from rollgym.records import ToolError
from rollgym.servers import sessions
from rollgym.servers.context import current_deadline, current_rollout, working_for
from rollgym.servers.sessions import Session, SessionCloser
from tests.cases import for_each


def test_nothing_is_done_where_there_is_nothing_to_let_go_of() -> None:
    async def scenario() -> None:
        keeper: SessionCloser[str] = SessionCloser("shop", None)
        await keeper.close_all([Session("one")])
        await keeper.finish()

    asyncio.run(scenario())


def test_states_are_closed_side_by_side() -> None:
    async def scenario() -> list[str]:
        barrier, closed = asyncio.Barrier(3), []

        async def close(state: str) -> None:
            await barrier.wait()
            closed.append(state)

        async with asyncio.timeout(60):
            await SessionCloser("shop", close).close_all(
                [Session("one"), Session("two"), Session("three")]
            )
        return closed

    assert sorted(asyncio.run(scenario())) == ["one", "three", "two"]


@for_each("error", [OSError("jammed"), ToolError("lost"), asyncio.CancelledError("odd")])
def test_what_closing_raises_concerns_nobody_else(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()

    async def scenario() -> list[str]:
        closed = []

        async def close(state: str) -> None:
            if state == "one":
                raise error
            closed.append(state)

        with working_for("7/1"):
            await SessionCloser("shop", close).close_all([Session("one"), Session("two")])
        return closed

    assert asyncio.run(scenario()) == ["two"]
    for record in caplog.records:
        assert (record.__dict__["server"], record.__dict__["rollout"]) == ("shop", "7/1")
        assert record.exc_info is not None
    assert len(caplog.records) == isinstance(error, Exception)


def test_closing_that_hangs_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sessions, "CLOSE_TIMEOUT", 0.01)

    async def close(state: str) -> None:
        await asyncio.sleep(300)

    asyncio.run(SessionCloser("shop", close).close_all([Session("one")]))
    assert "a session of shop could not be closed" in caplog.text


def test_a_caller_that_leaves_does_not_stop_it() -> None:
    async def scenario() -> None:
        began, may_end, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def close(state: str) -> None:
            began.set()
            await may_end.wait()
            closed.set()

        keeper = SessionCloser("shop", close)
        caller = asyncio.ensure_future(keeper.close_all([Session("one")]))
        await began.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        may_end.set()
        await keeper.finish()
        assert closed.is_set()

    asyncio.run(scenario())


def test_it_is_done_for_the_rollout_but_after_its_deadline() -> None:
    async def scenario() -> tuple[str, float | None]:
        told: list[tuple[str, float | None]] = []

        async def close(state: str) -> None:
            told.append((current_rollout(), current_deadline()))

        with working_for("7/1", 0.0):
            await SessionCloser("shop", close).close_all([Session("one")])
        return told[0]

    assert asyncio.run(scenario()) == ("7/1", None)


def test_a_state_is_closed_when_no_call_uses_it_any_more() -> None:
    async def scenario() -> None:
        session, used = Session("one"), True

        async def close(state: str) -> None:
            assert not used

        await session.turn.acquire()
        closing = asyncio.ensure_future(SessionCloser("shop", close).close_all([session]))
        await asyncio.sleep(0.01)
        assert not closing.done()
        used = False
        session.turn.release()
        await closing

    asyncio.run(scenario())
