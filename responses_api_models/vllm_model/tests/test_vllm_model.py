import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from responses_api_models.vllm_model.app import VllmModel, VllmModelConfig
from responses_api_models.vllm_model.tests.fake_vllm import (
    API_KEY,
    CONTEXT_LENGTH,
    MODEL,
    FakeVllm,
    JsonObject,
)
from rollgym.records import (
    ModelAuthError,
    ModelContextError,
    ModelMalformedError,
    ModelRequestError,
    RolloutError,
)
from rollgym.servers import Response, ServerClient, connect
from rollgym.servers.config.loading import load_config
from rollgym.servers.config.plugins import load_settings

WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Berlin"}'},
}


@asynccontextmanager
async def serving(vllm: FakeVllm, **settings: Any) -> AsyncIterator[ServerClient]:
    """A client of a model server in front of `vllm`."""
    async with vllm.running() as base_url, serving_at(base_url, **settings) as client:
        yield client


@asynccontextmanager
async def serving_at(base_url: str | list[str], **settings: Any) -> AsyncIterator[ServerClient]:
    known = {"base_url": base_url, "api_key": API_KEY, "model": MODEL, **settings}
    server = VllmModel("policy_model", VllmModelConfig.model_validate(known))
    await server.start()
    try:
        yield connect(server)
    finally:
        await server.close()


async def ask(client: ServerClient, **params: Any) -> JsonObject:
    answer = await client.post("/v1/responses", {"input": "Hello", **params})
    assert answer.status == 200, answer.text
    decoded: JsonObject = msgspec.json.decode(answer.body)
    return decoded


def answer_of(vllm: FakeVllm, settings: JsonObject | None = None, **params: Any) -> JsonObject:
    """The response to one request."""

    async def episode() -> JsonObject:
        async with serving(vllm, **(settings or {})) as client:
            return await ask(client, **params)

    return asyncio.run(episode())


def test_a_request_reaches_vllm_as_a_chat_and_comes_back_as_a_response() -> None:
    vllm = FakeVllm({"content": "Hi there"})
    response = Response.of(answer_of(vllm, max_output_tokens=9, top_k=3, model="another"))
    assert response.text == "Hi there"
    assert response.model == MODEL
    assert (response.usage.input_tokens, response.usage.cached_tokens) == (5, 1)
    assert vllm.requests == [
        {
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 9,
            "top_k": 3,
            "model": MODEL,
        }
    ]


def test_an_episode_of_reasoning_and_tool_calls_keeps_its_history() -> None:
    second = {**CALL, "id": "call_2"}
    vllm = FakeVllm(
        {"content": "Looking.", "reasoning": "Two cities.", "tool_calls": [CALL, second]},
        {"content": "Sunny in both."},
    )

    async def episode() -> JsonObject:
        async with serving(vllm) as client:
            history: list[JsonObject] = [{"role": "user", "content": "Weather?"}]
            first = await ask(client, input=history, tools=[WEATHER], tool_choice="auto")
            history += first["output"]
            for call in Response.of(first).function_calls:
                output = {"call_id": call.call_id, "output": "sunny"}
                history.append({"type": "function_call_output", **output})
            return await ask(client, input=history, tools=[WEATHER])

    assert Response.of(asyncio.run(episode())).text == "Sunny in both."
    assert vllm.requests[1]["messages"] == [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": "Looking.",
            "reasoning": "Two cities.",
            "reasoning_content": "Two cities.",
            "tool_calls": [CALL, second],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "call_2", "content": "sunny"},
    ]


def test_without_a_reasoning_parser_reasoning_is_taken_from_the_text_and_goes_back_into_it() -> (
    None
):
    written = "<think>Hm.\n</think>\n\nFour."
    vllm = FakeVllm({"content": written}, {"content": "Five."})

    async def episode() -> JsonObject:
        async with serving(vllm, uses_reasoning_parser=False) as client:
            first = await ask(client)
            assert [item["type"] for item in first["output"]] == ["reasoning", "message"]
            assert Response.of(first).text == "\n\nFour."
            again = {"role": "user", "content": "And then?"}
            return await ask(client, input=[*first["output"], again])

    asyncio.run(episode())
    assert vllm.requests[1]["messages"][0] == {"role": "assistant", "content": written}


def test_the_exact_tokens_are_on_the_last_item_and_not_in_later_requests() -> None:
    vllm = FakeVllm(
        {"content": "It is fine", "reasoning": "Hm.", "tool_calls": [CALL]}, {"content": "Done"}
    )

    async def episode() -> list[JsonObject]:
        async with serving(vllm, return_token_id_information=True) as client:
            first = await ask(client)
            result = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
            await ask(client, input=[*first["output"], result])
            items: list[JsonObject] = first["output"]
            return items

    reasoning, message, call = asyncio.run(episode())
    assert call["prompt_token_ids"] == [72, 101, 108, 108, 111]
    assert call["generation_token_ids"] == [3, 2, 2, 4]
    assert call["generation_log_probs"] == [-0.75, -0.5, -0.5, -1.0]
    assert "prompt_token_ids" not in reasoning | message
    assert "logprobs" not in message["content"][0]
    assert vllm.requests[0]["return_token_ids"] is vllm.requests[0]["logprobs"] is True
    assert "generation_token_ids" not in str(vllm.requests[1])


@pytest.mark.parametrize("llama_cpp", [False, True], ids=["vLLM", "llama.cpp"])
def test_every_turn_can_continue_the_exact_tokens_of_the_turn_before(llama_cpp: bool) -> None:
    called = 'So. <tool_call>{"name": "look", "arguments": {"at": 1}}</tool_call>'
    vllm = FakeVllm({"content": called}, {"content": "Done"}, llama_cpp=llama_cpp)

    async def episode() -> list[JsonObject]:
        async with serving(vllm, continue_from_tokens=True) as client:
            first = await ask(client)
            call = Response.of(first).function_calls[0]
            assert (call.name, call.parsed_arguments) == ("look", {"at": 1})
            result = {"type": "function_call_output", "call_id": call.call_id, "output": "x"}
            second = await ask(client, input=[*first["output"], result])
            return [first, second]

    first, second = asyncio.run(episode())
    message, call = first["output"]
    assert message["content"][0]["text"] == "So."
    sampled = [*(1000 + ord(each) for each in called), ord("$")]
    assert (call["generation_token_ids"], call["generation_log_probs"][:2]) == (sampled, [-0.5] * 2)
    prompts = [request["prompt"] for request in vllm.requests]
    assert "".join(map(chr, prompts[0])) == "<user>Hello$<assistant>"
    following = [ord(each) for each in "<tool>x$<assistant>"]
    assert prompts[1] == prompts[0] + sampled + following
    assert second["output"][0]["prompt_token_ids"] == prompts[1]
    room = None if llama_cpp else CONTEXT_LENGTH - len(prompts[1])
    assert vllm.requests[1].get("max_tokens") == room


def test_what_only_a_chat_endpoint_can_do_is_refused_where_turns_are_sent_as_tokens() -> None:
    with pytest.raises(ModelRequestError, match="with a `tool_choice`"):
        answer_of(
            FakeVllm(), {"continue_from_tokens": True}, tools=[WEATHER], tool_choice="required"
        )


def test_log_probabilities_come_with_the_text_where_a_request_asks() -> None:
    vllm = FakeVllm({"content": "Fine"})
    response = answer_of(vllm, include=["message.output_text.logprobs"])
    (entry,) = response["output"][0]["content"][0]["logprobs"]
    assert (entry["token"], entry["logprob"]) == ("Fine", -1.0)


def test_a_version_that_gives_no_tokens_is_not_trained_on() -> None:
    vllm = FakeVllm({"content": "Hi"}, gives_token_ids=False)
    with pytest.raises(ModelMalformedError, match="prompt_token_ids and generation") as told:
        answer_of(vllm, {"return_token_id_information": True})
    assert told.value.retryable is False


def test_an_answer_cut_at_its_length_is_incomplete() -> None:
    response = Response.of(answer_of(FakeVllm({"content": "One two", "finish_reason": "length"})))
    assert (response.status, response.incomplete_reason) == ("incomplete", "max_output_tokens")


def test_a_conversation_that_does_not_fit_is_a_context_error() -> None:
    vllm = FakeVllm()
    with pytest.raises(ModelContextError, match="maximum context length is 200 tokens"):
        answer_of(vllm, input="long " * 500)
    assert len(vllm.requests) == 1


def test_a_wrong_key_is_an_authentication_error() -> None:
    with pytest.raises(ModelAuthError):
        answer_of(FakeVllm(), {"api_key": "another-key"})


def test_an_answer_that_vllm_broke_off_is_malformed() -> None:
    with pytest.raises(ModelMalformedError, match="aborted the completion"):
        answer_of(FakeVllm({"content": "One", "finish_reason": "abort"}))


def test_what_a_chat_endpoint_cannot_do_is_refused_before_it_is_asked() -> None:
    vllm = FakeVllm()
    with pytest.raises(ModelRequestError, match=r"input\[0\].type: 'item_reference'"):
        answer_of(vllm, input=[{"type": "item_reference", "id": "x"}])
    assert vllm.requests == []


def test_malformed_arguments_in_the_history_do_not_end_the_rollout() -> None:
    deep = '{"a":[' * 60 + "]}" * 60
    cases: Iterable[tuple[str, str]] = [
        ('{"city": ', '{"malformed_arguments":"{\\"city\\": "}'),
        ("[1]", '{"malformed_arguments":"[1]"}'),
        (deep, json.dumps({"malformed_arguments": deep}, separators=(",", ":"))),
        ("", "{}"),
        ('{"city": "Rome"}', '{"city": "Rome"}'),
    ]
    for arguments, sent in cases:
        vllm = FakeVllm({"content": "Sorry."})
        call = {
            "type": "function_call",
            "call_id": "a",
            "name": "get_weather",
            "arguments": arguments,
        }
        complaint = {"type": "function_call_output", "call_id": "a", "output": "not a JSON object"}
        response = answer_of(vllm, input=[call, complaint])
        assert Response.of(response).text == "Sorry."
        function = vllm.requests[0]["messages"][0]["tool_calls"][0]["function"]
        assert function == {"name": "get_weather", "arguments": sent}


def test_a_developer_is_heard() -> None:
    vllm = FakeVllm({"content": "Yes."})
    says = {"role": "developer", "content": "Be brief."}
    response = answer_of(vllm, input=[says, {"role": "user", "content": "Hello"}])
    assert vllm.requests[0]["messages"][0] == {"role": "system", "content": "Be brief."}
    assert response["metadata"] == {"chat_form": '{"developer_as_system":true}'}


def test_extra_parameters_are_defaults_that_a_request_can_override() -> None:
    vllm = FakeVllm({"content": "Yes."})
    answer_of(vllm, {"extra_body": {"top_k": 5, "min_p": 0.1}}, top_k=9)
    assert (vllm.requests[0]["top_k"], vllm.requests[0]["min_p"]) == (9, 0.1)


FIELD = """
policy_model:
  responses_api_models:
    vllm_model:
      entrypoint: app.py
      num_workers: 8
      base_url: http://127.0.0.1:9/v1
      api_key: key
      model: m
      return_token_id_information: false
      uses_reasoning_parser: true
      uses_interleaved_reasoning: true
      replace_developer_role_with_system: false
      chat_template_kwargs: null
      extra_body: null
      default_headers: {}
"""


def test_a_config_of_the_field_loads_and_only_the_number_of_workers_has_no_effect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "model.yaml").write_text(FIELD)
    instance = load_config(["+config_paths=[model.yaml]"], tmp_path, listening=False).instances[0]
    load_settings(instance, VllmModel)
    (record,) = caplog.records
    assert record.getMessage().startswith("model.yaml:6: policy_model: `num_workers` has no effect")


def test_parameters_of_requests_come_before_those_in_metadata_and_of_the_config() -> None:
    vllm = FakeVllm({"content": "Hi"})
    metadata = {
        "extra_body": '{"seed": 5, "top_k": 5, "min_p": 5, "stream": true}',
        "chat_template_kwargs": '{"enable_thinking": false}',
        "note": "n",
    }
    settings = {
        "extra_body": {"min_p": 1, "best_of": 1, "max_output_tokens": None},
        "chat_template_kwargs": {"enable_thinking": True, "date": "today"},
        "sampling_overrides": {"temperature": 1.0},
    }
    response = answer_of(vllm, settings, metadata=metadata, top_k=9, temperature=0.2)
    (sent,) = vllm.requests
    del sent["messages"]
    assert sent == {
        "model": MODEL,
        "seed": 5,
        "top_k": 9,
        "min_p": 5,
        "best_of": 1,
        "temperature": 1.0,
        "chat_template_kwargs": {"enable_thinking": False, "date": "today"},
        "metadata": {"note": "n"},
    }
    note = '{"chat_template_kwargs":{"enable_thinking":false,"date":"today"}}'
    assert response["metadata"] == {**metadata, "chat_form": note}


def test_metadata_that_cannot_be_unpacked_is_a_wrong_request() -> None:
    vllm = FakeVllm()
    for wrong in ("{", "[1]", 7):
        with pytest.raises(ModelRequestError, match="metadata.extra_body must be a JSON object"):
            answer_of(vllm, metadata={"extra_body": wrong})
    assert not vllm.requests


def test_how_history_is_sent_can_be_set() -> None:
    vllm = FakeVllm({"content": "Hi"})
    thought = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "…"}]}
    response = answer_of(
        vllm,
        {
            "uses_interleaved_reasoning": False,
            "replace_developer_role_with_system": False,
            "continue_final_assistant_message": True,
            "default_headers": {"X-Team": "a"},
        },
        input=[
            {"role": "developer", "content": "Short."},
            thought,
            {"role": "assistant", "content": "So"},
        ],
    )
    (sent,) = vllm.requests
    assert sent["messages"] == [
        {"role": "developer", "content": "Short."},
        {"role": "assistant", "content": "So"},
    ]
    assert (sent["continue_final_message"], sent["add_generation_prompt"]) == (True, False)
    assert response["metadata"] == {"chat_form": '{"without_reasoning":true}'}


def test_a_chat_completion_is_passed_through_as_vllm_gave_it() -> None:
    vllm = FakeVllm({"content": "Hi"})

    async def episode() -> JsonObject:
        async with serving(vllm, return_token_id_information=True) as client:
            body = {"messages": [{"role": "user", "content": "Hello"}], "model": "another"}
            answer = await client.post("/v1/chat/completions", body)
            decoded: JsonObject = msgspec.json.decode(answer.body)
            return decoded

    completion = asyncio.run(episode())
    assert completion["choices"][0]["message"]["content"] == "Hi"
    assert completion["choices"][0]["token_ids"] == [2]
    assert completion["prompt_token_ids"] == [72, 101, 108, 108, 111]


def test_models_and_health_are_told() -> None:
    async def episode() -> tuple[JsonObject, JsonObject]:
        async with serving(FakeVllm()) as client:
            answers = [
                await client.call(path, b"", error=RolloutError, any_status=True, method="GET")
                for path in ("/v1/models", "/healthz")
            ]
            models, health = (msgspec.json.decode(answer.body) for answer in answers)
            return models, health

    models, health = asyncio.run(episode())
    assert models["data"][0]["id"] == MODEL
    assert health["endpoints"][0]["ok"] == 1


def test_calls_are_spread_over_several_endpoints() -> None:
    first, second = FakeVllm({"content": "1"}), FakeVllm({"content": "2"})

    async def episode() -> list[JsonObject]:
        async with (
            first.running() as one,
            second.running() as two,
            serving_at([one, two]) as client,
        ):
            return [await ask(client), await ask(client)]

    answers = asyncio.run(episode())
    assert {Response.of(answer).text for answer in answers} == {"1", "2"}


def test_settings_that_cannot_work_are_refused() -> None:
    cases: Iterable[JsonObject] = [
        {"base_url": "localhost:8000"},
        {"base_url": []},
        {"max_concurrency": 0},
        {"modell": 1},
    ]
    for wrong in cases:
        known = {"base_url": "http://127.0.0.1:1/v1", "model": MODEL, **wrong}
        with pytest.raises(ValidationError):
            VllmModelConfig.model_validate(known)
