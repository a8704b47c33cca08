"""The worker that hands rows to agents, and waits for one that is away."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from rollgym.engine import Backoff, WorkItem
from rollgym.records import (
    AgentError,
    Completed,
    Failed,
    FailureKind,
    ModelContextError,
    Outcome,
    Row,
    Span,
    Task,
)
from rollgym.rollouts.rows import RepeatSeeds
from rollgym.rollouts.token_rows import rollout_tokens
from rollgym.rollouts.worker import AgentWorker
from rollgym.servers import client as client_module
from rollgym.servers.client import RecoveryWait, ServerClient, connect
from rollgym.servers.context import current_rollout, seconds_left
from rollgym.servers.exchange import Answer, Request, failure_answer
from rollgym.servers.replicas import NoAnswerError

TASK = Task(3, Row.of({"responses_create_params": {"input": "hi"}, "agent_ref": {"name": "a"}}), 4)
GOOD = Answer(200, b'{"reward":1.0}')


class Agent:
    """A server that answers with whatever a function gives."""

    def __init__(self, answer: Callable[[Request], Answer | Awaitable[Answer]]) -> None:
        self.requests: list[Request] = []
        self._answer = answer

    async def handle(self, request: Request, _seconds: float) -> Answer:
        self.requests.append(request)
        answer = self._answer(request)
        return answer if isinstance(answer, Answer) else await answer

    def client(self, name: str) -> ServerClient:
        assert name == "a"
        return connect(self, name)


def attempt(agent: Agent, repeat: int = 1, seconds: float = 30.0, **options: Any) -> Outcome:
    async def work() -> Outcome:
        worker = AgentWorker(agent.client, **options)
        return await worker(
            WorkItem(TASK, repeat, 0), 1, asyncio.get_running_loop().time() + seconds
        )

    return asyncio.run(work())


def failure(agent: Agent, **options: Any) -> Failed:
    outcome = attempt(agent, **options)
    assert isinstance(outcome, Failed)
    return outcome


def test_the_agent_gets_the_row_with_the_number_of_the_repeat() -> None:
    agent = Agent(lambda _: GOOD)
    assert isinstance(attempt(agent, repeat=2), Completed)
    (request,) = agent.requests
    assert (request.method, request.path) == ("POST", "/run")
    assert request.body == TASK.row.with_fields({"_ng_rollout_index": 2}).raw


def test_each_repeat_gets_its_seed() -> None:
    agent = Agent(lambda _: GOOD)
    attempt(agent, repeat=2, seeds=RepeatSeeds(100))
    params = json.loads(agent.requests[0].body)["responses_create_params"]
    assert params == {"input": "hi", "metadata": {"extra_body": '{"seed":102}'}}


def test_the_work_is_done_for_the_rollout_and_until_its_deadline() -> None:
    seen: list[tuple[str, float]] = []

    def look(_: Request) -> Answer:
        seen.append((current_rollout(), seconds_left(1000.0)))
        return GOOD

    attempt(Agent(look), repeat=2, seconds=30.0)
    ((rollout, seconds),) = seen
    assert rollout == "3/2"
    assert 25 < seconds <= 30


def test_the_threshold_is_the_workers() -> None:
    agent = Agent(lambda _: Answer(200, b'{"reward":0.5}'))
    outcomes = [attempt(agent, success_threshold=value) for value in (0.5, 0.6)]
    assert [each.success for each in outcomes if isinstance(each, Completed)] == [True, False]


def test_the_tokens_of_an_agent_of_another_program_are_stored_once() -> None:
    def item(prompt: list[int], sampled: list[int]) -> dict[str, Any]:
        fields = {"prompt_token_ids": prompt, "generation_token_ids": sampled}
        return {"type": "message", "role": "assistant", **fields, "generation_log_probs": [-0.5]}

    row = {"reward": 1.0, "response": {"output": [item([1, 2], [3]), item([1, 2, 3, 4], [5])]}}
    raw = json.dumps(row).encode()
    outcome = attempt(Agent(lambda _: Answer(200, raw)))
    assert isinstance(outcome, Completed)
    assert b"token_ids" not in bytes(outcome.result)
    for result in (bytes(outcome.result), raw):  # rows of other programs are read as well
        (branch,) = rollout_tokens(result).branches()
        assert (branch.input_ids, branch.loss_mask) == ([1, 2, 3, 4, 5], [0, 0, 1, 0, 1])


# What fails.


def test_a_typed_failure_keeps_its_type_and_what_there_was() -> None:
    error = ModelContextError("too long")
    error.partial = b'{\r\n"response": {"output": []}}'
    found = failure(Agent(lambda _: failure_answer(error)))
    assert (found.failure.kind, found.failure.detail) == (FailureKind.MODEL_CONTEXT, "too long")
    assert not found.failure.retryable
    assert json.loads(bytes(found.result)) == {"response": {"output": []}}
    assert b"\r" not in bytes(found.result)


def test_a_typed_failure_keeps_where_its_time_went() -> None:
    error = ModelContextError("too long")
    error.partial = b'{"response":{},"phases":{"model":1.5},"spans":[["model",250000,1500000,""]]}'
    found = failure(Agent(lambda _: failure_answer(error)))
    assert (found.phases, found.spans) == ({"model": 1.5}, (Span("model", 0.25, 1.5),))
    assert bytes(found.result) == b'{"response":{}}'


def test_times_of_a_failure_that_cannot_be_read_are_none() -> None:
    error = ModelContextError("too long")
    error.partial = b'{"phases":"long","spans":{"model":1}}'
    found = failure(Agent(lambda _: failure_answer(error)))
    assert (found.phases, found.spans, bytes(found.result)) == ({}, (), b"")


def test_a_part_that_is_no_object_is_not_kept() -> None:
    cases: list[bytes] = [b"[1]", b'"text"', b"1", b"null"]
    for partial in cases:
        error = ModelContextError("too long")
        error.partial = partial
        assert bytes(failure(Agent(lambda _: failure_answer(error))).result) == b""


def test_an_untyped_error_of_the_agent_is_the_agents() -> None:
    cases: list[tuple[int, bool]] = [(500, True), (429, True), (404, False)]
    for status, retryable in cases:
        found = failure(Agent(lambda _: Answer(status, b"what happened here")))
        assert (found.failure.kind, found.failure.retryable) == (FailureKind.AGENT, retryable)
        assert f"HTTP {status}: what happened here" in found.failure.detail


def test_an_answer_that_is_no_verified_row_is_the_verifiers_failure() -> None:
    found = failure(Agent(lambda _: Answer(200, b"<html>")))
    assert found.failure.kind is FailureKind.VERIFIER
    assert found.failure.retryable


def test_a_deadline_that_is_over_is_a_failure_and_asks_nobody() -> None:
    agent = Agent(lambda _: GOOD)
    assert failure(agent, seconds=-1).failure.retryable
    assert agent.requests == []


# A server that is away.


class Away:
    """A transport to a server that cannot be reached until it has been knocked at often enough."""

    def __init__(self, knocks: int) -> None:
        self.knocks = knocks
        self.knocked = 0
        self.most_at_once = 0
        self._at_once = 0

    async def __call__(self, request: Request, _seconds: float) -> Answer:
        if request.path != "/healthz":
            raise NoAnswerError("connection refused")
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(0)
        self._at_once -= 1
        self.knocked += 1
        if self.knocked < self.knocks:
            raise NoAnswerError("connection refused")
        return Answer(200, b"{}")

    def client(self, name: str = "a") -> ServerClient:
        return ServerClient(name, [self])


@pytest.fixture(autouse=True)
def quick_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PAUSES", Backoff(0.001, maximum=0.004, jitter=0.0))


def timed(work: Coroutine[Any, Any, None]) -> float:
    async def measure() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await work
        return loop.time() - began

    return asyncio.run(measure())


def test_an_attempt_at_a_server_that_is_away_ends_when_it_is_back() -> None:
    away = Away(knocks=3)

    async def work() -> Outcome:
        worker = AgentWorker(away.client, recovery=RecoveryWait(30.0))
        return await worker(WorkItem(TASK, 0, 0), 1, asyncio.get_running_loop().time() + 60)

    outcome = asyncio.run(work())
    assert isinstance(outcome, Failed)
    assert (outcome.failure.kind, outcome.failure.retryable) == (FailureKind.AGENT, True)
    assert away.knocked == 3


def test_all_rollouts_wait_for_one_that_knocks() -> None:
    away, others = Away(knocks=4), 20

    async def work() -> None:
        patience, client = RecoveryWait(30.0), away.client()
        errors = await asyncio.gather(
            *(client.call("/run", b"{}", error=AgentError) for _ in range(others)),
            return_exceptions=True,
        )
        waits = (
            patience.wait_for(client, error) for error in errors if isinstance(error, AgentError)
        )
        await asyncio.gather(*waits)

    asyncio.run(work())
    assert (away.knocked, away.most_at_once) == (4, 1)


def test_a_server_that_stays_away_is_waited_for_no_longer_than_the_time() -> None:
    away = Away(knocks=10**9)

    async def work() -> None:
        client = away.client()
        with pytest.raises(AgentError) as refusal:
            await client.call("/run", b"{}", error=AgentError)
        await RecoveryWait(0.05).wait_for(client, refusal.value)

    assert timed(work()) < 5
    assert away.knocked > 1


def test_no_patience_is_no_wait() -> None:
    away = Away(knocks=1)

    async def work() -> None:
        client = away.client()
        with pytest.raises(AgentError) as refusal:
            await client.call("/run", b"{}", error=AgentError)
        await RecoveryWait(0.0).wait_for(client, refusal.value)

    asyncio.run(work())
    assert away.knocked == 0


def test_an_error_that_somebody_answered_with_is_not_waited_for() -> None:
    agent = Agent(lambda _: Answer(500, b"busy"))
    failure(agent, recovery=RecoveryWait(30.0))
    assert [request.path for request in agent.requests] == ["/run"]


def test_one_rollout_that_gives_up_does_not_end_the_wait_of_the_others() -> None:
    away = Away(knocks=5)

    async def work() -> None:
        patience, client = RecoveryWait(30.0), away.client()
        with pytest.raises(AgentError) as refusal:
            await client.call("/run", b"{}", error=AgentError)
        waits = [asyncio.ensure_future(patience.wait_for(client, refusal.value)) for _ in range(3)]
        await asyncio.sleep(0)
        waits[0].cancel()
        done, _ = await asyncio.wait(waits)
        assert [wait.cancelled() for wait in waits] == [True, False, False]
        assert len(done) == 3

    asyncio.run(work())
    assert away.knocked == 5
