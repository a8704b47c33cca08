"""The scripted model as a model server."""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from responses_api_models.scripted_model.app import ScriptedModel, ScriptedModelConfig
from responses_api_models.scripted_model.tests.rolling_out import example_rows
from rollgym.records import ModelRequestError
from rollgym.servers import Request, Response, ServerConfig, connect
from rollgym.servers.config.loading import load_config
from rollgym.servers.config.plugins import load_server_class, load_settings
from rollgym.servers.context import working_for

LABEL = "scripted_model (no language model)"
Json = dict[str, Any]


def ask(params: object, rollout: str = "0/0", **config: Any) -> Json:
    async def request() -> Json:
        server = ScriptedModel("policy_model", ScriptedModelConfig(**config))
        with working_for(rollout):
            answer = await connect(server).post("/v1/responses", params)
        assert answer.status == 200, answer.text
        response: Json = msgspec.json.decode(answer.body)
        return response

    return asyncio.run(request())


def test_an_answer_is_a_whole_responses_object_that_says_what_made_it() -> None:
    params = example_rows("mcqa")[0]["responses_create_params"]
    response = ask({**params, "temperature": 0.5, "metadata": {"a": "b"}}, skill=1.0)
    assert response["object"] == "response"
    assert response["model"] == LABEL
    assert response["status"] == "completed"
    assert (response["temperature"], response["metadata"]) == (0.5, {"a": "b"})
    assert (response["tools"], response["tool_choice"]) == ([], "auto")
    assert response["id"].startswith("resp_")
    message = response["output"][-1]
    assert (message["role"], message["status"]) == ("assistant", "completed")
    assert "\\boxed{B}" in Response.of(response).text


def test_tokens_are_counted_as_words() -> None:
    response = ask({"input": "one two three"}, skill=1.0, seed=1)
    usage, text = response["usage"], Response.of(response).text
    assert usage["input_tokens"] == 3
    reasoning = usage["output_tokens_details"]["reasoning_tokens"]
    assert usage["output_tokens"] - reasoning == len(text.split())
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_a_seed_in_the_request_gives_another_answer() -> None:
    cases: Iterable[Json] = [{"seed": 5}, {"metadata": {"extra_body": '{"seed":5}'}}]
    for change in cases:
        params = example_rows("example_multi_step")[0]["responses_create_params"]
        assert ask(params)["id"] == ask(params)["id"]
        assert ask(params)["id"] != ask({**params, **change})["id"]
        assert ask(params)["id"] != ask(params, rollout="0/1")["id"]


def test_without_tools_to_choose_it_calls_none() -> None:
    params = example_rows("example_single_tool_call")[0]["responses_create_params"]
    assert Response.of(ask(params, skill=1.0)).function_calls
    assert not Response.of(ask({**params, "tool_choice": "none"}, skill=1.0)).function_calls


def test_the_first_step_does_not_depend_on_parameters_that_mean_nothing_to_a_script() -> None:
    params = example_rows("example_multi_step")[0]["responses_create_params"]
    assert ask(params)["output"] == ask({**params, "max_output_tokens": 8192})["output"]


def test_a_task_that_it_does_not_know_is_answered_honestly() -> None:
    cases: Iterable[float] = [0.0, 1.0]
    for skill in cases:
        tools = [{"type": "function", "name": "launch", "parameters": {}}]
        response = Response.of(ask({"input": "Launch it.", "tools": tools}, skill=skill))
        assert response.text in (
            "I am a script, no language model, and know only the bundled example tasks.",
            "I do not know.",
        )
        assert not response.function_calls


def test_a_request_that_is_none_is_refused() -> None:
    cases: Iterable[Json] = [{}, {"input": 3}, {"input": [{"type": 1}]}]
    for params in cases:
        with pytest.raises(ModelRequestError):
            ask(params)


def test_texts_in_parts_are_read_like_plain_ones() -> None:
    params = example_rows("mcqa")[0]["responses_create_params"]
    question = params["input"][0]["content"]
    parts = [{"type": "input_text", "text": question}]
    assert (
        ask({"input": [{"role": "user", "content": parts}]})
        == ask(params)
        == ask({"input": question})
    )


def test_it_lists_itself_as_the_only_model() -> None:
    server = ScriptedModel("policy_model", ScriptedModelConfig())
    answer = asyncio.run(server.handle(Request("GET", "/v1/models")))
    assert [model["id"] for model in msgspec.json.decode(answer.body)["data"]] == [LABEL]


def test_an_answer_takes_as_long_as_it_is_told_to() -> None:
    began = time.monotonic()
    ask({"input": "Hello."}, latency=0.05)
    assert time.monotonic() - began >= 0.05


def test_its_configuration_needs_nothing_else_and_shows_every_setting(tmp_path: Path) -> None:
    path = "responses_api_models/scripted_model/configs/scripted_model.yaml"
    run = load_config([f"+config_paths=[{path}]"], tmp_path, listening=False)
    instance = run.instance("policy_model")
    assert load_server_class(instance) is ScriptedModel
    assert load_settings(instance, ScriptedModel) == ScriptedModelConfig()
    own = set(ScriptedModelConfig.model_fields) - set(ServerConfig.model_fields)
    assert own <= set(instance.settings)
