from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given

from rollgym.records import ModelRequestError
from rollgym.servers.responses import JsonObject, responses_request_from_chat
from tests.unit.servers.responses.strategies import damaged

USER = {"role": "user", "content": "Hello"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
EVERYTHING: JsonObject = {
    "model": "served-model",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "Hm.",
            "tool_calls": [CALL],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a door"},
        {"role": "assistant", "content": None, "refusal": "No."},
    ],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}],
    "tool_choice": {"type": "function", "function": {"name": "look"}},
    "max_completion_tokens": 5,
    "max_tokens": 9,
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}},
    "verbosity": "low",
    "reasoning_effort": "high",
    "logprobs": True,
    "top_logprobs": 2,
    "temperature": 0.5,
    "stop": None,
    "n": 1,
    "stream": False,
    "top_k": 3,
}


def test_a_whole_chat_request_becomes_the_parameters_that_ask_the_same() -> None:
    params = responses_request_from_chat(EVERYTHING)
    reasoning = params["input"][2]
    assert reasoning["id"].startswith("rs_")
    assert params == {
        "input": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is this?"},
                    {
                        "type": "input_image",
                        "image_url": "https://example.org/a.png",
                        "detail": "auto",
                    },
                ],
            },
            {
                "type": "reasoning",
                "id": reasoning["id"],
                "summary": [{"type": "summary_text", "text": "Hm."}],
            },
            {"role": "assistant", "content": "I look."},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "a door"},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "refusal", "refusal": "No."}],
            },
        ],
        "model": "served-model",
        "tools": [
            {
                "type": "function",
                "name": "look",
                "description": None,
                "parameters": {},
                "strict": False,
            }
        ],
        "tool_choice": {"type": "function", "name": "look"},
        "max_output_tokens": 5,
        "text": {"format": {"type": "json_schema", "name": "a", "schema": {}}, "verbosity": "low"},
        "reasoning": {"effort": "high"},
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 2,
        "temperature": 0.5,
        "top_k": 3,
    }


def test_the_same_request_is_translated_the_same_every_time() -> None:
    assert responses_request_from_chat(EVERYTHING) == responses_request_from_chat(EVERYTHING)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"messages": None}, "messages: must be an array, not null"),
        ({"messages": [{"role": "function"}]}, "messages[0].role: must be user, system"),
        ({"messages": [{"role": "tool", "content": ""}]}, "messages[0].tool_call_id: must be"),
        (
            {"messages": [USER, {"role": "user", "content": [{"type": "video_url"}]}]},
            "messages[1].content[0].type: 'video_url' cannot be sent; use one of text, image_url",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "c1", "function": {}}]}]},
            "messages[0].tool_calls[0].function.name: must be a string, not null",
        ),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name: must be"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function: must be an object"),
        ({"n": 2}, "n: a response holds one answer"),
        ({"stream": True}, "stream: streaming is not supported"),
        ({"functions": [{}]}, "functions: is the old way to give tools; use `tools`"),
    ],
)
def test_what_responses_cannot_express_is_refused_with_its_place(
    change: JsonObject, said: str
) -> None:
    with pytest.raises(ModelRequestError) as refused:
        responses_request_from_chat({"messages": [USER], **change})
    assert said in str(refused.value)


@given(body=damaged(EVERYTHING))
def test_a_damaged_request_is_translated_or_refused_but_never_breaks(body: Any) -> None:
    if isinstance(body, dict):
        with suppress(ModelRequestError):
            assert responses_request_from_chat(body)["input"] is not None
