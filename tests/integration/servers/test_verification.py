"""A finished response outlives its verifier's errors, and any rollout its deadline."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from rollgym.engine import Backoff, WorkItem
from rollgym.records import (
    Completed,
    Failed,
    FailureKind,
    Outcome,
    Row,
    Task,
    Usage,
    VerifierError,
)
from rollgym.rollouts.worker import AgentWorker
from rollgym.servers import (
    Episode,
    FunctionCall,
    Response,
    Verdict,
    context,
    tool,
    verification,
)
from rollgym.servers.exchange import Answer, Request
from tests.cases import for_each
from tests.integration.servers.transports import Transport, over_both
from tests.integration.servers.workshop import (
    Bench,
    Courier,
    Json,
    Order,
    Shop,
    Workshop,
    open_shop,
    task,
    until,
)

LONG, SHORT = 600.0, 4.0


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "PAUSES", Backoff(0.001, maximum=0.004, jitter=0.0))


class Moody(Workshop):
    """A verifier that raises the given errors one after another, and then returns its verdict."""

    moods: list[Callable[[], Exception]]
    asked = 0

    async def verify(self, task: Order, response: Response, state: Bench) -> Verdict:
        self.asked += 1
        if self.asked <= len(self.moods):
            raise self.moods[self.asked - 1]()
        return await super().verify(task, response, state)


async def attempt(shop: Shop, row: Json, seconds: float = LONG) -> Outcome:
    """One attempt of the engine's worker at this row."""
    worker = AgentWorker(lambda _: shop.clients.client("agent"))
    item = WorkItem(Task(0, Row.of({**row, "agent_ref": {"name": "agent"}})), 0, 0)
    return await worker(item, 1, asyncio.get_running_loop().time() + seconds)


def kept(outcome: Outcome) -> Json:
    result: Json = json.loads(bytes(outcome.result) or b"{}")
    return result


def verified(transport: Transport, *moods: Callable[[], Exception], **agent: Any) -> Any:
    """The outcome, how often the verifier and the model were asked, and the session's end."""

    async def scenario() -> Any:
        settings = {"verify_attempts": 4, **agent}
        async with open_shop(transport, Courier, Moody, agent=settings) as shop:
            assert isinstance(shop.workshop, Moody)
            shop.workshop.moods = list(moods)
            row = task(["model"], ["tool", "add", {"amount": 2}], says="done", expected=2)
            outcome = await attempt(shop, row)
            (bench,) = shop.workshop.benches
            await until(lambda: bench.closed == 1)
            return outcome, shop.workshop.asked, len(shop.model.heard)

    return asyncio.run(scenario())


@over_both
def test_a_verifier_that_stumbles_is_asked_again_in_the_same_session(transport: Transport) -> None:
    moods = (ConnectionResetError, lambda: KeyError("a"), lambda: VerifierError("busy"))
    outcome, asked, turns = verified(transport, *moods)
    assert isinstance(outcome, Completed)
    assert (outcome.reward, asked, turns) == (1.0, 4, 1)


@over_both
@for_each(
    ("mood", "times"),
    [
        (lambda: KeyError("scales"), 2),  # a bug: the same exception at the same line
        (TimeoutError, 4),
        (lambda: VerifierError("no scales at all", retryable=False), 1),
    ],
)
def test_a_response_that_cannot_be_verified_is_kept_and_not_run_again(
    transport: Transport, mood: Callable[[], Exception], times: int
) -> None:
    outcome, asked, turns = verified(transport, *[mood] * 9)
    assert isinstance(outcome, Failed)
    assert (outcome.failure.kind, outcome.failure.retryable) == (FailureKind.VERIFIER, False)
    assert "`rollgym reverify` can score it" in outcome.failure.detail
    assert (asked, turns) == (times, 1)
    result = kept(outcome)
    assert result["unverified"] is True
    assert result["response"]["output"][-1]["content"][0]["text"] == "done"
    assert outcome.usage == Usage(3, 2)
    assert list(outcome.phases) == ["seed", "model", "tools", "verify"]


@over_both
@for_each("answer", [b"<html>", b'{"reward": null}', b"{}"])
def test_an_answer_without_a_verdict_is_asked_for_again(
    transport: Transport, answer: bytes
) -> None:
    """Also from an environment of others, which says 200 to anything."""

    async def scenario() -> Outcome:
        async with open_shop(transport, agent={"verify_attempts": 2}) as shop:
            answers = [answer, b'{"reward": 0.5}']

            async def say(_: Request) -> Answer:
                return Answer(200, answers.pop(0))

            shop.workshop.route("POST", "/verify", say)
            return await attempt(shop, task(says="done"))

    outcome = asyncio.run(scenario())
    assert isinstance(outcome, Completed)
    assert outcome.reward == 0.5
    assert kept(outcome)["response"]["output"]


@over_both
def test_a_session_that_is_gone_is_not_verified_again(transport: Transport) -> None:
    class Forgetful(Courier):
        async def responses(self, params: Json, episode: Episode) -> Json:
            episode.resources_jar.cookies.clear()
            return await super().responses(params, episode)

    async def scenario() -> Outcome:
        async with open_shop(transport, Forgetful, agent={"verify_attempts": 4}) as shop:
            return await attempt(shop, task(says="done"))

    outcome = asyncio.run(scenario())
    assert isinstance(outcome, Failed)
    assert (outcome.failure.kind, outcome.failure.retryable) == (FailureKind.ENVIRONMENT, True)
    assert kept(outcome)["unverified"] is True


class Dreamer(Courier):
    """Stops in the middle of its loop, outside of any call."""

    async def responses(self, params: Json, episode: Episode) -> Json:
        await super().responses(params, episode)
        await asyncio.sleep(300)
        return {}


WAITS = ("the model", "a tool", "the verifier", "itself", "its request timeout")


async def into_the_deadline(transport: Transport, waiting_for: str) -> Outcome:
    agent = Dreamer if waiting_for in ("itself", "its request timeout") else Courier
    settings = {"request_timeout": SHORT} if waiting_for == "its request timeout" else {}
    async with open_shop(transport, agent, agent=settings) as shop:

        async def once(params: Json) -> bytes:
            if waiting_for == "the model":
                shop.model.answer = shop.model.hang
            return await shop.model.say_done(params)

        shop.model.answer = once
        last = ["tool", "hang", {}] if waiting_for == "a tool" else ["model"]
        row = task(["model"], last, says="hang" if waiting_for == "the verifier" else "")
        return await attempt(shop, row, LONG if settings else SHORT)


def test_a_rollout_that_runs_into_its_deadline_keeps_what_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(context, "ENDING_SHARE", 0.6)  # for a machine that is busy
    cases = [(transport, waiting_for) for transport in Transport for waiting_for in WAITS]

    async def scenario() -> list[Outcome]:
        return await asyncio.gather(*(into_the_deadline(*case) for case in cases))

    for (transport, waiting_for), outcome in zip(cases, asyncio.run(scenario()), strict=True):
        about = f"{waiting_for} {transport}"
        assert isinstance(outcome, Failed), about
        assert outcome.failure.kind is FailureKind.TIMEOUT, about
        assert outcome.failure.retryable is (waiting_for != "the verifier"), about
        assert kept(outcome)["response"]["output"][0]["type"] == "message", about
        assert ("unverified" in kept(outcome)) is (waiting_for == "the verifier"), about
        assert outcome.usage.output_tokens >= 2, about
        assert list(outcome.phases)[:2] == ["seed", "model"], about
        assert outcome.spans, about


def test_a_rollout_that_is_cancelled_in_this_process_keeps_what_it_has() -> None:
    async def scenario() -> Outcome:
        async with open_shop(Transport.IN_PROCESS) as shop:
            row = task(["model"], ["tool", "hang", {}])
            running = asyncio.ensure_future(attempt(shop, row))
            await shop.workshop.gauge.began.wait()
            running.cancel()
            return await running

    outcome = asyncio.run(scenario())
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind is FailureKind.CANCELLED
    assert outcome.usage == Usage(3, 2)
    assert [item["type"] for item in kept(outcome)["response"]["output"]] == ["message"]


class Eager(Courier):
    """Calls tools side by side, of which the last one never ends."""

    async def responses(self, params: Json, episode: Episode) -> Json:
        calls = [FunctionCall(name, name, "{}") for name in ("fast", "hang")]
        episode.output += [{"type": "function_call", "name": call.name} for call in calls]
        await episode.call_tools(calls, [{"name": call.name} for call in calls])
        return {}


def test_outputs_of_calls_side_by_side_are_kept_when_another_call_does_not_end() -> None:
    class Fast(Workshop):
        @tool
        async def fast(self) -> str:
            """Answer at once."""
            return "done"

    async def scenario() -> Outcome:
        settings = {"parallel_tool_calls": True}
        async with open_shop(Transport.IN_PROCESS, Eager, Fast, agent=settings) as shop:
            running = asyncio.ensure_future(attempt(shop, task()))
            await shop.workshop.gauge.began.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            running.cancel()
            return await running

    output = kept(asyncio.run(scenario()))["response"]["output"]
    assert [item["output"] for item in output if "output" in item] == ["done"]
