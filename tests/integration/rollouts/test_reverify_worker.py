"""The worker that verifies stored rollouts again."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from rollgym.engine import Backoff, WorkItem
from rollgym.records import Completed, Failed, FailureKind, Outcome, Row, Task
from rollgym.rollouts.reverify_worker import ReverifyWorker
from rollgym.rollouts.rows import STORED_ROLLOUTS, StoredRollout
from rollgym.rollouts.servers import CollectionServers, ServerDescription
from rollgym.rollouts.stored_rollouts import StoredRollouts
from rollgym.servers import ResourcesServer, Response, TaskRow, Verdict, tool, verification
from rollgym.servers.client import ServerClient, connect
from rollgym.servers.exchange import Answer, Request
from rollgym.servers.resources import ResourcesConfig
from rollgym.servers.server import ServerKind
from rollgym.store import SettingsIdentity

REFERENCE = {"resources_server": {"type": "resources_servers", "name": "environment"}}
AGENTS = [
    ServerDescription("agent", ServerKind.AGENT, "simple_agent", REFERENCE, SettingsIdentity({}))
]
SERVERS = CollectionServers(AGENTS, nullcontext)  # type: ignore[arg-type]
TOOLS = [{"type": "function", "name": name} for name in ("note", "fail", "refuse")]


class Notebook(ResourcesServer[TaskRow, list[str]]):
    """Remembers what was noted; its verifier counts it."""

    verdict: Verdict | None = None

    async def seed_session(self, task: TaskRow) -> list[str]:
        return []

    @tool
    async def note(self, state: list[str], word: str) -> str:
        """Note a word."""
        state.append(word)
        return "noted"

    @tool
    async def fail(self, state: list[str]) -> str:
        """Break."""
        raise KeyError("gone")

    async def verify(self, task: TaskRow, response: Response, state: list[str]) -> Verdict:
        if "bad" in state:
            raise ValueError("a bad word")
        return Verdict(reward=float(len(state)), success=True, noted=list(state))


class Plain(ResourcesServer[TaskRow, None]):
    """Has no state, and so no reason to call its tools again."""

    calls = 0

    @tool
    async def note(self, word: str) -> str:
        """Note a word."""
        self.calls += 1
        return "noted"

    async def verify(self, task: TaskRow, response: Response, state: None) -> Verdict:
        return Verdict(reward=float(self.calls))


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "1", "name": name, "arguments": arguments}


def made(name: str, arguments: str, output: str = "noted") -> list[dict[str, Any]]:
    """A call with its output."""
    answer = {"type": "function_call_output", "call_id": "1", "output": output}
    return [call(name, arguments), answer]


def noting(*words: str) -> list[dict[str, Any]]:
    encoded = [msgspec.json.encode({"word": word}).decode() for word in words]
    return [item for each in encoded for item in made("note", each)]


def verified(
    server: ResourcesServer[Any, Any],
    output: list[dict[str, Any]],
    agent: str = "agent",
    **options: Any,
) -> Outcome:
    params = {"input": "hi", "tools": TOOLS}
    base = Row.of({"responses_create_params": params, "agent_ref": {"name": agent}})
    task = Task(0, base.with_fields({STORED_ROLLOUTS: [StoredRollout(4)]}))
    row = {"response": {"output": output}, "_ng_task_index": 0, "_ng_rollout_index": 4}

    def clients(name: str) -> ServerClient:
        assert name == "environment"
        return connect(server, name)

    async def work(stored: StoredRollouts) -> Outcome:
        worker = ReverifyWorker(clients, SERVERS, stored, success_threshold=1.0, **options)
        deadline = asyncio.get_running_loop().time() + 60
        return await worker(WorkItem(task, 0, 0), 1, deadline)

    with TemporaryDirectory() as folder:
        path = Path(folder) / "rollouts.jsonl"
        path.write_bytes(base.with_fields(row).raw + b"\n")
        return asyncio.run(work(StoredRollouts(path)))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "PAUSES", Backoff(0.001, maximum=0.004, jitter=0.0))


@pytest.fixture
def notebook() -> Notebook:
    return Notebook("environment", ResourcesConfig())


def fields(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome, Completed)
    found: dict[str, Any] = msgspec.json.decode(outcome.result)
    return found


def test_tool_calls_are_made_again_in_their_order_where_there_is_state(notebook: Notebook) -> None:
    outcome = verified(notebook, noting("b", "a", "c"))
    assert fields(outcome)["noted"] == ["b", "a", "c"]
    assert fields(outcome)["response"] == {"output": noting("b", "a", "c")}
    assert notebook.health()["sessions"] == 0


def test_calls_that_no_tool_took_the_first_time_are_none_now(notebook: Notebook) -> None:
    odd = [
        *made("note", "{bad"),
        *made("note", "[]"),
        *made("note", '{"word":1}', '{"error":{"message":"wrong arguments"}}'),
        *made("refuse", "{}", '{"detail":"Not Found"}'),
        *made("verify", "{}"),
        *made("close_session", "{}"),
        *noting("kept"),
        {**call("note", '{"word":"never made"}'), "call_id": "2"},
    ]
    assert fields(verified(notebook, odd))["noted"] == ["kept"]


def test_a_call_that_fails_only_now_fails_the_rollout(notebook: Notebook) -> None:
    """The verifier would score another state than the one that the rollout left."""
    for failing in (made("fail", "{}", "done"), made("note", '{"renamed":"word"}')):
        outcome = verified(notebook, failing)
        assert isinstance(outcome, Failed)
        assert outcome.failure.kind is FailureKind.TOOL
        assert notebook.health()["sessions"] == 0


def test_a_verifier_that_does_not_repeat_the_response_does_not_lose_it(notebook: Notebook) -> None:
    async def verify(_: Request) -> Answer:
        return Answer(200, b'{"reward": 0.5}')

    notebook.route("POST", "/verify", verify)
    assert fields(verified(notebook, noting("a"))) == {
        "reward": 0.5,
        "response": {"output": noting("a")},
    }


def test_an_environment_without_state_is_only_asked_to_verify() -> None:
    plain = Plain("environment", ResourcesConfig())
    outcome = verified(plain, noting("a"))
    assert isinstance(outcome, Completed)
    assert (outcome.reward, plain.calls) == (0.0, 0)
    assert isinstance(verified(plain, noting("a"), replay_tools=True), Completed)
    assert plain.calls == 1


def test_the_command_can_say_that_no_tools_are_called(notebook: Notebook) -> None:
    assert fields(verified(notebook, noting("a"), replay_tools=False))["noted"] == []


def test_a_verifier_that_breaks_leaves_no_session_behind(notebook: Notebook) -> None:
    outcome = verified(notebook, noting("bad"))
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind is FailureKind.VERIFIER
    assert "a bad word" in outcome.failure.detail
    assert notebook.health()["sessions"] == 0
    kept = {"response": {"output": noting("bad")}, "unverified": True}
    assert msgspec.json.decode(outcome.result) == kept


def test_an_agent_without_an_environment_cannot_be_verified(notebook: Notebook) -> None:
    outcome = verified(notebook, [], agent="unknown")
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind is FailureKind.TASK
    assert "names no resources server for the agent 'unknown'" in outcome.failure.detail
