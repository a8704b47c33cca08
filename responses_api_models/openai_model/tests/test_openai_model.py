"""The server in front of a real endpoint that plays its part, well and badly."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from pydantic import ValidationError

from responses_api_models.openai_model.app import OpenAIModel, OpenAIModelConfig
from rollgym.records import (
    ModelAuthError,
    ModelContextError,
    ModelMalformedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelUnavailableError,
    RolloutError,
)
from rollgym.servers import Response, ServerClient, connect
from rollgym.servers.config.loading import load_config
from rollgym.servers.config.plugins import load_settings
from rollgym.store import hide_secrets
from tests.faulty_model import OVERFLOWS, FaultyModel, Step, error, hang, reply, unused_port

KEY = "sk-0123456789abcdef"
CONFIG = Path(__file__).parents[1] / "configs" / "openai_model.yaml"
PARAMS = b'{"input":[{"role":"user","content":"Hi"}],  "temperature":1.0, "odd":{"b":1,"a":2}}'


def config_for(base_url: object, **settings: Any) -> OpenAIModelConfig:
    named = {"openai_base_url": base_url, "openai_api_key": KEY, "openai_model": "gpt-test"}
    quick = {"backoff_initial": 0.01, "backoff_maximum": 0.02}
    return OpenAIModelConfig.model_validate({**named, "pool": quick, **settings})


@asynccontextmanager
async def serving(model: FaultyModel, **settings: Any) -> AsyncIterator[ServerClient]:
    """A client of a model server in front of this endpoint."""
    server = OpenAIModel("policy_model", config_for(model.base_url, **settings))
    await server.start()
    try:
        yield connect(server)
    finally:
        await server.close()


async def ask(client: ServerClient, body: bytes = PARAMS, path: str = "/v1/responses") -> bytes:
    return (await client.call(path, body, error=RolloutError)).body


def playing(
    *script: Step, act: Callable[[ServerClient, FaultyModel], Awaitable[None]], **settings: Any
) -> None:
    async def scenario() -> None:
        async with FaultyModel(script) as model, serving(model, **settings) as client:
            await act(client, model)

    asyncio.run(scenario())


def test_a_request_is_passed_on_byte_for_byte_with_the_models_name_set() -> None:
    async def act(client: ServerClient, model: FaultyModel) -> None:
        await ask(client)
        await ask(client, b'{"model":"other", "temperature":1.0}')
        first, second = model.requests
        assert first.path == "/v1/responses"
        assert first.headers["authorization"] == f"Bearer {KEY}"
        assert first.body == PARAMS[:-1] + b',"model":"gpt-test"}'
        assert second.body == b'{"model":"gpt-test","temperature":1.0}'

    playing(act=act)


def test_an_answer_comes_back_byte_for_byte() -> None:
    said = b'{"id": "resp_1", "output": [], "status": "incomplete",  "extra": 1.0}'

    async def act(client: ServerClient, _: FaultyModel) -> None:
        assert await ask(client) == said
        assert Response.of(json.loads(await ask(client))).text == "Fine."

    playing(reply(200, said), act=act)


def test_chat_completions_and_models_are_passed_through() -> None:
    async def act(client: ServerClient, model: FaultyModel) -> None:
        chat = await ask(client, b'{"messages":[]}', "/v1/chat/completions")
        assert json.loads(chat)["choices"][0]["message"]["content"] == "Fine."
        assert model.requests[0].json == {"messages": [], "model": "gpt-test"}
        models = await client.call("/v1/models", b"", error=RolloutError, method="GET")
        assert json.loads(models.body)["data"][0]["id"] == "faulty"

    playing(act=act)


FAILURES: dict[str, tuple[Step, type[RolloutError]]] = {
    "no response": (reply(200, {"object": "chat.completion"}), ModelMalformedError),
    "an echo of our headers": (
        reply(200, {"headers": {"authorization": f"Bearer {KEY}"}}),
        ModelMalformedError,
    ),
    "output of another type": (reply(200, {"output": "text"}), ModelMalformedError),
    "a response in the background": (
        reply(200, {"output": [], "status": "queued"}),
        ModelMalformedError,
    ),
    "a failed response": (
        reply(200, {"output": [], "status": "failed", "error": {"code": "server_error"}}),
        ModelUnavailableError,
    ),
    "a response that failed by its limit": (
        reply(200, {"output": [], "status": "failed", "error": {"code": "rate_limit_exceeded"}}),
        ModelRateLimitError,
    ),
    "a response that failed by its prompt": (
        reply(200, {"output": [], "status": "failed", "error": {"code": "invalid_prompt"}}),
        ModelRequestError,
    ),
    "a failed response without a reason": (
        reply(200, {"output": [], "status": "failed", "error": None}),
        ModelRequestError,
    ),
    "wrong key": (error(401, f"Incorrect API key provided: {KEY}"), ModelAuthError),
    "context": (reply(*OVERFLOWS["openai responses"]), ModelContextError),
    "bad parameter": (error(400, "Unknown parameter"), ModelRequestError),
}


def test_what_is_not_the_models_word_is_a_typed_error() -> None:
    cases: Iterable[str] = FAILURES
    for failure in cases:
        step, kind = FAILURES[failure]

        async def act(client: ServerClient, _: FaultyModel) -> None:
            with pytest.raises(kind) as caught:
                await ask(client)
            assert KEY not in str(caught.value)

        playing(step, act=act)


def test_a_chat_completion_without_choices_is_malformed() -> None:
    async def act(client: ServerClient, _: FaultyModel) -> None:
        with pytest.raises(ModelMalformedError, match="choices"):
            await ask(client, b"{}", "/v1/chat/completions")

    playing(reply(200, {"output": []}), act=act)


FIELD = """
model:
  responses_api_models:
    openai_model:
      entrypoint: app.py
      num_workers: 8
      provides: [image-model]
      openai_base_url: http://127.0.0.1:9/v1
      openai_api_key: ${oc.env:NO_SUCH_KEY,key}
      openai_model: gpt-test
      openai_default_headers: {X-Team: a-team-token, user-agent: theirs}
      openai_organization: org-1
      drop_input_reasoning_items: ${oc.env:NO_SUCH_SETTING,true}
      extra_body: {max_output_tokens: null, service_tier: flex, temperature: 0.5}
"""


def test_a_config_of_the_field_is_honoured(tmp_path: Path, caplog: Any) -> None:
    (tmp_path / "model.yaml").write_text(FIELD)
    instance = load_config(["+config_paths=[model.yaml]"], tmp_path, listening=False).instances[0]
    settings = load_settings(instance, OpenAIModel).model_dump(
        include={
            "openai_default_headers",
            "openai_organization",
            "drop_input_reasoning_items",
            "extra_body",
        }
    )
    assert "model.yaml:6: model: `num_workers` has no effect here" in caplog.text
    assert hide_secrets(instance.settings, OpenAIModelConfig)["openai_default_headers"] == "***"
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    user = {"role": "user", "content": "Hi"}

    async def act(client: ServerClient, model: FaultyModel) -> None:
        await ask(client, json.dumps({"input": [user, reasoning], "temperature": 1.0}).encode())
        (sent,) = model.requests
        assert sent.json == {
            "input": [user],
            "temperature": 1.0,
            "service_tier": "flex",
            "model": "gpt-test",
        }
        assert sent.headers["x-team"] == "a-team-token"
        assert sent.headers["user-agent"] == "theirs"
        assert sent.headers["openai-organization"] == "org-1"

    playing(act=act, **settings)


def test_parameters_in_metadata_stay_there_as_strings_unless_they_are_unpacked() -> None:
    metadata = {"extra_body": {"seed": 5, "top_k": 2}, "note": "n"}
    body = json.dumps({"input": "Hi", "top_k": 1, "metadata": metadata}).encode()

    async def act(client: ServerClient, model: FaultyModel) -> None:
        await ask(client, body)
        sent = model.requests[-1].json
        assert sent["metadata"] == {"extra_body": '{"seed":5,"top_k":2}', "note": "n"}
        assert "seed" not in sent

    async def unpacked(client: ServerClient, model: FaultyModel) -> None:
        await ask(client, body)
        sent = model.requests[-1].json
        assert (sent["seed"], sent["top_k"], sent["metadata"]) == (5, 1, {"note": "n"})

    playing(act=act)
    playing(act=unpacked, unpack_metadata=True)


def test_a_caller_that_goes_away_takes_its_request_along() -> None:
    async def act(client: ServerClient, model: FaultyModel) -> None:
        call = asyncio.create_task(ask(client))
        await model.see_request()
        call.cancel()
        await model.see_disconnect()
        with pytest.raises(asyncio.CancelledError):
            await call

    playing(hang(), act=act)


def test_several_endpoints_share_the_load_and_health_tells_of_each() -> None:
    async def scenario() -> None:
        dead = f"http://127.0.0.1:{unused_port()}/v1"
        async with FaultyModel() as model:
            named = [dead, {"base_url": model.base_url, "weight": 2, "max_concurrency": 8}]
            server = OpenAIModel("policy_model", config_for(named))
            client = connect(server)
            await asyncio.gather(*(ask(client) for _ in range(20)))
            health = await client.call("/healthz", b"", error=RolloutError, method="GET")
            await server.close()
            down, well = json.loads(health.body)["endpoints"]
            assert (down["url"], down["ok"]) == (dead, 0)
            assert (well["ok"], well["limit"], well["in_flight"]) == (20, 8, 0)
            assert KEY.encode() not in health.body

    asyncio.run(scenario())


def test_the_bundled_configuration_is_one_that_the_server_takes() -> None:
    given = {"policy_base_url": "http://h/v1", "policy_api_key": KEY, "policy_model_name": "m"}
    whole = OmegaConf.merge(OmegaConf.load(CONFIG), given)
    settings = OmegaConf.to_container(whole, resolve=True)
    assert isinstance(settings, dict)
    config = OpenAIModelConfig.model_validate(
        settings["policy_model"]["responses_api_models"]["openai_model"]
    )
    assert (config.openai_base_url, config.openai_model) == ("http://h/v1", "m")


def test_a_wrong_setting_is_refused_under_its_own_name() -> None:
    cases: Iterable[tuple[dict[str, Any], str]] = [
        ({"openai_base_url": "api.openai.com"}, "openai_base_url"),
        ({"openai_base_url": []}, "openai_base_url"),
        ({"openai_api_key": "two words"}, "openai_api_key"),
        ({"pool": {"max_retrys": 1}}, "pool"),
        ({"max_concurrency": 0}, "max_concurrency"),
    ]
    for change, key in cases:
        with pytest.raises(ValidationError) as refusal:
            config_for("http://h/v1", **change)
        assert {detail["loc"][0] for detail in refusal.value.errors()} == {key}
