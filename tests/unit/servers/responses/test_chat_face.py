"""Chat completions of a Responses model: converted there and back, nothing is lost."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.records import ModelRequestError
from rollgym.servers.responses import (
    JsonObject,
    chat_completion,
    chat_request,
    response_from_chat,
    responses_request,
)
from tests.cases import for_each
from tests.unit.servers.responses.strategies import assistant_messages, completion_of, damaged

USER = {"role": "user", "content": "Hello"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
LOOK = {"name": "look", "description": "Look", "parameters": {}, "strict": False}
EVERYTHING: JsonObject = {
    "model": "served-model",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "http://a/b.png", "detail": "auto"}},
            ],
        },
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [CALL],
            "reasoning_content": "Hm.",
            "reasoning": "Hm.",
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a door"},
        {"role": "assistant", "content": None, "refusal": "No."},
    ],
    "tools": [{"type": "function", "function": LOOK}],
    "tool_choice": {"type": "function", "function": {"name": "look"}},
    "max_tokens": 9,
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}},
    "verbosity": "low",
    "reasoning_effort": "high",
    "logprobs": True,
    "top_logprobs": 2,
    "temperature": 0.5,
    "top_k": 3,
}


def test_a_whole_chat_request_survives_being_asked_as_responses() -> None:
    params = responses_request({**EVERYTHING, "n": 1, "stop": None, "stream": True})
    assert "stream" not in params
    assert chat_request(params) == EVERYTHING


@for_each(
    ("change", "said"),
    [
        ({"messages": None}, "messages: must be an array, not null"),
        ({"messages": [{"role": "function"}]}, "messages[0].role: must be user, system"),
        (
            {"messages": [USER, {"role": "user", "content": [{"type": "video_url"}]}]},
            "messages[1].content[0].type: 'video_url' cannot be sent; use one of text, image_url",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "c1", "function": {}}]}]},
            "messages[0].tool_calls[0].function.name: must be a string, not null",
        ),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function: must be an object"),
        (
            {"tool_choice": {"type": "allowed_tools"}},
            "tool_choice.type: must be 'function', not 'allowed_tools'",
        ),
        ({"tools": [{"type": "custom"}]}, "tools[0].type: must be 'function', not 'custom'"),
        ({"n": 2}, "n: a response holds one choice"),
        ({"functions": [{}]}, "functions: is the old form of tools; use `tools`"),
    ],
)
def test_what_responses_cannot_express_is_refused_with_its_place(
    change: JsonObject, said: str
) -> None:
    with pytest.raises(ModelRequestError) as refused:
        responses_request({"messages": [USER], **change})
    assert said in str(refused.value)


@given(body=damaged(EVERYTHING))
def test_a_damaged_request_is_converted_or_refused_but_never_breaks(body: Any) -> None:
    if isinstance(body, dict):
        with suppress(ModelRequestError):
            assert responses_request(body)["input"] is not None


@given(message=assistant_messages(), finish=st.sampled_from(["stop", "length", "content_filter"]))
def test_a_completion_survives_being_a_response(message: JsonObject, finish: str) -> None:
    tokens = {
        "prompt_token_ids": [1, 2],
        "generation_token_ids": [3],
        "generation_log_probs": [-0.5],
    }
    completion = completion_of({**message, **tokens}, finish_reason=finish)
    back = chat_completion(response_from_chat(completion, {}))
    choice = back["choices"][0]
    told = choice["message"]
    for name in ("content", "refusal", "reasoning_content"):
        assert (told.get(name) or "") == (message.get(name) or "")
    assert (told.get("tool_calls") or []) == (message.get("tool_calls") or [])
    assert tokens.items() <= told.items()
    if finish != "stop":
        assert choice["finish_reason"] == finish
    assert back["usage"].items() >= completion["usage"].items()
