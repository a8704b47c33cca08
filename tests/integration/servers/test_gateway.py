"""The gateway itself: sessions, keys, the forms of errors and bounds, over real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest

from rollgym.records import ModelUnavailableError, Row
from rollgym.records.branches import branches_of
from rollgym.records.tokens import TokenTurn
from rollgym.servers import ModelServer, ServerConfig, connect
from rollgym.servers.gateway import gateway as gateway_module
from rollgym.servers.gateway.open_sessions import OpenGateway

Json = dict[str, Any]
PATIENCE = 60.0
HELLO = {"model": "any", "messages": [{"role": "user", "content": "Hello"}]}
PATHS: dict[str, Json] = {
    "chat/completions": HELLO,
    "messages": {**HELLO, "max_tokens": 10},
    "responses": {"input": "Hello"},
}


class CountedModel(ModelServer):
    """Answers with tokens that continue those of the request's length, or as it is told."""

    def __init__(self) -> None:
        super().__init__("policy_model", ServerConfig())
        self.requests: list[Json] = []
        self.answer: Callable[[], None] = lambda: None
        self.hold: asyncio.Event | None = None

    async def responses(self, params: Row) -> bytes:
        request = msgspec.json.decode(params.raw)
        self.requests.append(request)
        if self.hold is not None:
            await self.hold.wait()
        self.answer()
        turn = len(self.requests)
        said = {"type": "output_text", "text": f"answer {turn}", "annotations": []}
        message = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
        tokens = {
            "prompt_token_ids": list(range(3 * turn)),
            "generation_token_ids": [3 * turn],
            "generation_log_probs": [-0.5],
            "takes_token_ids": True,
        }
        return msgspec.json.encode(
            {
                "id": f"resp_{turn}",
                "object": "response",
                "created_at": 1,
                "model": "counted",
                "status": "completed",
                "output": [{**message, "content": [said], **tokens}],
                "usage": {"input_tokens": 3 * turn, "output_tokens": 1},
            }
        )


class Scene(NamedTuple):
    """A gateway, its model, and a client without any key."""

    gateway: OpenGateway
    model: CountedModel
    http: aiohttp.ClientSession

    async def open(self, **settings: object) -> Json:
        async with self.http.post(f"{self.gateway.url}/sessions", json=settings) as answer:
            assert answer.status == 201, await answer.text()
            opened: Json = await answer.json()
            return opened

    async def kept(self, session: Json, method: str = "GET") -> Json:
        url = f"{self.gateway.url}/sessions/{session['id']}"
        async with self.http.request(method, url) as answer:
            assert answer.status == 200, await answer.text()
            kept: Json = await answer.json()
            return kept

    async def call(
        self, session: Json, path: str = "chat/completions", key: str | None = None, **more: object
    ) -> tuple[int, str]:
        """The status and the body of the answer to a call."""
        headers = {"authorization": f"Bearer {session['api_key'] if key is None else key}"}
        url = f"{session['openai_base_url']}/{path}"
        async with self.http.post(url, json={**PATHS[path], **more}, headers=headers) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def scene(**settings: Any) -> AsyncIterator[Scene]:
    model = CountedModel()
    gateway = OpenGateway(connect(model, "policy_model"), **settings)
    await gateway.start()
    async with asyncio.timeout(PATIENCE), gateway, aiohttp.ClientSession() as http:
        yield Scene(gateway, model, http)


def test_a_session_keeps_calls_with_their_tokens_until_it_ends() -> None:
    async def play() -> None:
        async with scene() as stage:
            session = await stage.open(rollout="task/0", parameters={"temperature": 0.7})
            status, body = await stage.call(session)
            assert status == 200
            assert "token_ids" not in body
            first = json.loads(body)["choices"][0]["message"]
            more = [*PATHS["chat/completions"]["messages"], first, {"role": "user", "content": "?"}]
            assert (await stage.call(session, messages=more))[0] == 200
            assert stage.model.requests[1]["temperature"] == 0.7
            # The model server continues from the tokens that the agent does not know.
            assert stage.model.requests[1]["input"][1]["generation_token_ids"] == [3]
            kept = await stage.kept(session, "DELETE")
            assert kept["rollgym_calls"]["answered"] == 2
            assert [item.get("role") for item in kept["response"]["output"]] == [
                *("assistant", "user", "assistant")
            ]
            turns = msgspec.convert(kept["rollgym_tokens"], list[TokenTurn])
            assert [turn.item for turn in turns] == [0, 2]
            (branch,) = branches_of(turns)
            assert branch.input_ids == [0, 1, 2, 3, 4, 5, 6]
            assert branch.loss_mask == [0, 0, 0, 1, 0, 0, 1]
            # After the end of the session, its key opens nothing.
            status, body = await stage.call(session)
            assert (status, "has ended" in body) == (404, True)
            assert not stage.gateway.sessions

    asyncio.run(play())


@pytest.mark.parametrize("path", PATHS)
def test_the_key_of_a_session_opens_no_other(path: str) -> None:
    async def play() -> None:
        async with scene() as stage:
            one, other = await stage.open(), await stage.open()
            for key in (other["api_key"], "", "sk-of-the-operator"):
                status, body = await stage.call(one, path, key)
                error = json.loads(body)["error"]
                assert (status, error["type"]) == (401, "authentication_error")
                assert one["api_key"] not in body
            for session in (one, other):
                assert (await stage.call(session, path))[0] == 200
                assert (await stage.kept(session))["rollgym_calls"]["made"] == 1

    asyncio.run(play())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_failed_call_has_the_form_of_its_api(path: str, stream: bool) -> None:
    def fail() -> None:
        raise ModelUnavailableError("the model is loading")

    async def play() -> None:
        async with scene() as stage:
            stage.model.answer = fail
            session = await stage.open()
            status, body = await stage.call(session, path, stream=stream)
            error = json.loads(body)
            assert (status, error["error"]["message"]) == (503, "the model is loading")
            assert (error.get("type") == "error") == (path == "messages")
            assert "traceback" not in body
            calls = (await stage.kept(session))["rollgym_calls"]
            assert calls["failed"] == {"model_unavailable": 1}

    asyncio.run(play())


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_that_waits_for_long_shows_signs_of_life(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "KEEP_ALIVE", 0.05)

    def fail() -> None:
        raise ModelUnavailableError("the model is gone")

    async def play(answer: Callable[[], None]) -> str:
        async with scene() as stage:
            stage.model.answer, stage.model.hold = answer, asyncio.Event()
            session = await stage.open()
            headers = {"x-api-key": session["api_key"]}
            url = f"{session['openai_base_url']}/{path}"
            body = {**PATHS[path], "stream": True}
            async with stage.http.post(url, json=body, headers=headers) as streamed:
                assert streamed.status == 200
                seen = await streamed.content.readline()
                stage.model.hold.set()
                return (seen + await streamed.read()).decode()

    whole = asyncio.run(play(lambda: None))
    assert whole.startswith("event: ping" if path == "messages" else ": waiting")
    assert "answer 1" in whole
    broken = asyncio.run(play(fail))
    assert "the model is gone" in broken
    assert '"type":"error"' in broken or '"error":{' in broken


def test_sessions_are_bounded_in_number_calls_and_lifetime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rollgym.servers.gateway.open_sessions.EXPIRY_INTERVAL", 0.02)

    async def play() -> None:
        async with scene(most_sessions=2) as stage:
            session = await stage.open(max_calls=1)
            assert (await stage.call(session))[0] == 200
            status, body = await stage.call(session)
            assert (status, "1 calls" in body) == (403, True)
            assert (await stage.kept(session))["rollgym_calls"]["refused"] == 1
            short = await stage.open(lifetime=0.05)
            async with stage.http.post(f"{stage.gateway.url}/sessions", json={}) as answer:
                assert answer.status in (201, 429)
            while stage.gateway.session(short["id"]) is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            async with stage.http.post(f"{stage.gateway.url}/sessions", json={"life": 1}) as answer:
                assert answer.status == 400

    asyncio.run(play())


def test_opening_a_session_needs_the_token_where_there_is_one() -> None:
    async def play() -> None:
        async with scene(token="t" * 24) as stage:
            url = f"{stage.gateway.url}/sessions"
            async with stage.http.post(url, json={}) as answer:
                assert answer.status == 401
                assert "with the token of its --token-env" in await answer.text()
            headers = {"authorization": "Bearer " + "t" * 24}
            async with stage.http.post(url, json={}, headers=headers) as answer:
                session = await answer.json()
            assert (await stage.call(session, key="t" * 24))[0] == 401
            assert (await stage.call(session))[0] == 200
        async with scene() as stage:
            url = f"{stage.gateway.url}/sessions"
            for headers in ({"origin": "http://evil.example"}, {"host": "evil.example"}):
                async with stage.http.post(url, json={}, headers=headers) as answer:
                    assert answer.status == 403

    asyncio.run(play())


def test_a_call_that_the_agent_abandons_is_cancelled_and_counted() -> None:
    async def play() -> None:
        async with scene() as stage:
            stage.model.hold = asyncio.Event()
            session = await stage.open()
            calling = asyncio.create_task(stage.call(session, stream=True))
            while not stage.model.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            opened = stage.gateway.session(session["id"])
            assert opened is not None
            while opened.is_running:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert (await stage.kept(session))["rollgym_calls"]["abandoned"] == 1

    asyncio.run(play())
