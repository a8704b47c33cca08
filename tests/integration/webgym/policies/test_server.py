import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from tests.unit.webgym.policies.pages import request
from webgym.actions.space import Click, Mark
from webgym.context.parsers import parse_reply
from webgym.context.settings import ContextSettings
from webgym.policies import MODEL_NAME as MODEL
from webgym.policies import server as server_module
from webgym.policies.scripted import PoliciesError, ScriptedPolicy
from webgym.policies.server import Latency, PolicyServer, serving
from webgym.sites.tasks.task import ActionKind, RecordedAction, Solution

COMPLETIONS = "/v1/chat/completions"
Answered = tuple[int, dict[str, Any]]
Post = Callable[[object], Awaitable[Answered]]


def policy_server(latency: str = "fixed:0", max_requests: int = 10) -> PolicyServer:
    solution = Solution("one", (RecordedAction(ActionKind.CLICK, "Bell"),))
    policy = ScriptedPolicy({"press the bell.": solution})
    return PolicyServer(policy, latency=Latency.read(latency), max_requests=max_requests)


async def get(session: aiohttp.ClientSession, url: str) -> Answered:
    async with session.get(url) as answer:
        return answer.status, await answer.json()


def asking(act: Callable[[Post], Awaitable[Any]], server: PolicyServer | None = None) -> Any:
    """What comes of it, with a server on a port of its own."""

    async def run() -> Any:
        async with (
            serving(server or policy_server(), port=0) as url,
            aiohttp.ClientSession() as session,
        ):

            async def post(body: object) -> Answered:
                kind = "data" if isinstance(body, bytes) else "json"
                async with session.post(url + COMPLETIONS, **{kind: body}) as answer:  # type: ignore[arg-type]
                    return answer.status, await answer.json()

            return await act(post)

    return asyncio.run(run())


def test_a_chat_is_answered_with_an_action_and_its_usage() -> None:
    status, answer = asking(lambda post: post(request("Press the bell.")))
    assert (status, answer["object"], answer["model"]) == (200, "chat.completion", MODEL)
    [choice] = answer["choices"]
    assert choice["finish_reason"] == "stop"
    reply = parse_reply(
        choice["message"]["content"], ContextSettings(interaction_mode="set_of_marks")
    )
    assert reply.action == Click(Mark(7))
    usage = answer["usage"]
    assert usage["prompt_tokens"] > 100
    assert usage["completion_tokens"] > 10
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_pictures_and_sampling_parameters_are_not_looked_at() -> None:
    body = request("Press the bell.")
    messages = body["messages"]
    assert isinstance(messages, list)
    text = messages[-1]["content"]
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages[-1] = {"role": "user", "content": [{"type": "text", "text": text}, picture]}
    status, _ = asking(lambda post: post(body | {"temperature": 0.7, "top_p": None, "stop": ["x"]}))
    assert status == 200


def test_models_and_health_are_answered() -> None:
    async def run() -> tuple[Answered, Answered]:
        async with (
            serving(policy_server(), port=0) as url,
            aiohttp.ClientSession() as session,
        ):
            return await get(session, f"{url}/v1/models"), await get(session, f"{url}/health")

    (_, models), (status, health) = asyncio.run(run())
    assert [each["id"] for each in models["data"]] == [MODEL]
    assert (status, health) == (200, {"status": "ok", "model": MODEL})


WRONG_REQUESTS: tuple[tuple[object, int, str], ...] = (
    (b"{", 400, "not a chat completion request"),
    (b"\xff", 400, "not a chat completion request"),
    ({"model": MODEL}, 400, "missing required field `messages`"),
    (request() | {"messages": []}, 400, "`messages` is empty"),
    (request() | {"stream": True}, 400, "`stream` is not supported"),
    (request() | {"n": 2}, 400, "`n` must be 1"),
    (request() | {"model": "gpt"}, 404, f"'gpt' is not served here: ask for '{MODEL}'"),
    (request() | {"messages": [{"role": "user", "content": "Hi"}]}, 400, "has no task"),
)


def test_a_wrong_request_is_rejected_as_clients_expect_it() -> None:
    async def act(post: Post) -> list[Answered]:
        return [await post(body) for body, _, _ in WRONG_REQUESTS]

    for (_, status, message), (answered, answer) in zip(WRONG_REQUESTS, asking(act), strict=True):
        assert answered == status
        assert message in answer["error"]["message"]
        assert answer["error"]["type"] == "invalid_request_error"
        assert answer["error"]["code"] == status


def test_a_request_that_is_too_large_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "LARGEST_BODY", 1_000)
    status, answer = asking(lambda post: post(request("x" * 2_000)))
    assert status == 413
    assert "larger than 1000 bytes" in answer["error"]["message"]


def test_a_reply_takes_at_least_its_latency() -> None:
    async def act(post: Post) -> float:
        began = time.monotonic()
        await post(request())
        return time.monotonic() - began

    assert asking(act, policy_server("fixed:0.3")) >= 0.3


def test_too_many_requests_at_once_are_rejected_for_now() -> None:
    async def act(post: Post) -> list[int]:
        answers = await asyncio.gather(
            *(post(request() | {"user": str(number)}) for number in range(4))
        )
        return sorted(status for status, _ in answers)

    assert asking(act, policy_server("fixed:2", max_requests=3)) == [200, 200, 200, 429]


def test_a_port_that_is_taken_is_rejected_with_advice() -> None:
    async def run() -> None:
        async with serving(policy_server(), port=0) as url:
            port = int(url.rpartition(":")[2])
            with pytest.raises(PoliciesError, match="choose another with --port"):
                await serving(policy_server(), port=port).__aenter__()

    asyncio.run(run())
