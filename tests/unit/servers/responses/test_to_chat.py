from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given

from rollgym.records import ModelRequestError
from rollgym.servers.responses import JsonObject, chat_request
from tests.cases import for_each
from tests.unit.servers.responses.strategies import damaged, json_values

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Look up the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": True,
}
CALL = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"}
EVERYTHING: JsonObject = {
    "instructions": "Be brief.",
    "input": [
        {"role": "developer", "content": "No jokes."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"},
            ],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
        },
        CALL,
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    ],
    "tools": [WEATHER],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "max_output_tokens": 100,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_logprobs": 2,
    "text": {"format": {"type": "json_schema", "name": "answer", "schema": {}, "strict": True}},
    "reasoning": {"effort": "low", "summary": "auto"},
    "metadata": {"run": "1"},
    "user": "somebody",
    "seed": 7,
    "stop": ["END"],
    "model": "served-model",
    "top_k": 20,
    "chat_template_kwargs": {"enable_thinking": False},
    "return_token_ids": True,
    "include": ["message.output_text.logprobs"],
    "truncation": "disabled",
    "store": False,
    "stream": False,
}


def test_a_whole_request_becomes_the_chat_request_that_asks_the_same() -> None:
    call = {"name": "get_weather", "arguments": "{}"}
    assert chat_request(EVERYTHING) == {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "No jokes."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {
                        "type": "image_url",
                        "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"},
                    },
                ],
            },
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [{"id": "c1", "type": "function", "function": call}],
                "reasoning_content": "Hm.",
                "reasoning": "Hm.",
            },
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "get_weather",
                    "description": "Look up the weather.",
                    "parameters": WEATHER["parameters"],
                    "strict": True,
                },
            }
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "logprobs": True,
        "top_logprobs": 2,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": {}, "strict": True},
        },
        "reasoning_effort": "low",
        "metadata": {"run": "1"},
        "user": "somebody",
        "seed": 7,
        "stop": ["END"],
        "model": "served-model",
        "top_k": 20,
        "chat_template_kwargs": {"enable_thinking": False},
        "return_token_ids": True,
    }


def test_a_string_for_input_is_what_the_user_says() -> None:
    assert chat_request({"input": "Hello"}) == {"messages": [{"role": "user", "content": "Hello"}]}


def test_a_null_is_left_out() -> None:
    request = chat_request(
        {"input": "Hello", "temperature": None, "tools": None, "text": None, "instructions": None}
    )
    assert list(request) == ["messages"]


@for_each("tools", [None, []])
@for_each("choice", ["auto", "none"])
def test_settings_for_tools_are_left_out_where_there_are_no_tools(tools: Any, choice: str) -> None:
    request = chat_request(
        {"input": "Hello", "tools": tools, "tool_choice": choice, "parallel_tool_calls": True}
    )
    assert list(request) == ["messages"]


def test_a_tool_chosen_by_name_is_written_as_chat_writes_it() -> None:
    choice = {"type": "function", "name": "get_weather"}
    request = chat_request({"input": "Hello", "tools": [WEATHER], "tool_choice": choice})
    assert request["tool_choice"] == {"type": "function", "function": {"name": "get_weather"}}


def test_answers_in_json_are_asked_for_as_chat_asks() -> None:
    request = chat_request({"input": "Hello", "text": {"format": {"type": "json_object"}}})
    assert request["response_format"] == {"type": "json_object"}
    plain = chat_request({"input": "Hello", "text": {"format": {"type": "text"}}})
    assert "response_format" not in plain


def test_log_probabilities_can_be_asked_for_without_alternatives() -> None:
    request = chat_request({"input": "Hello", "include": ["message.output_text.logprobs"]})
    assert request["logprobs"] is True
    assert "top_logprobs" not in request
    assert "logprobs" not in chat_request({"input": "Hello", "top_logprobs": 0})


@for_each(
    ("change", "said"),
    [
        ({"input": 5}, "input: must be an array, not a number"),
        ({"input": None}, "input: must be an array, not null"),
        ({"input": ["Hello"]}, "input[0]: must be an object, not a string"),
        ({"input": [{"role": "tool", "content": ""}]}, "input[0].role: must be user"),
        ({"input": [{"role": "user"}]}, "input[0].content: must be an array, not null"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
            "input[0].content[0].type: 'input_file' cannot be sent",
        ),
        (
            {"input": [{"role": "user", "content": "x"}, {"type": "web_search_call"}]},
            "input[1].type: 'web_search_call' items cannot be sent",
        ),
        ({"input": [{**CALL, "arguments": {}}]}, "input[0].arguments: must be a string"),
        ({"input": [{**CALL, "call_id": None}]}, "input[0].call_id: must be a string, not null"),
        ({"input": [{"type": "function_call_output", "call_id": "c1"}]}, "input[0].output: must"),
        ({"instructions": ["x"]}, "instructions: must be a string, not an array"),
        ({"tools": [WEATHER, {"type": "web_search"}]}, "tools[1].type: must be 'function'"),
        ({"tools": [{"type": "function"}]}, "tools[0].name: must be a string, not null"),
        ({"tool_choice": "sometimes"}, "tool_choice: must be auto, none, required or a tool"),
        ({"tool_choice": ["auto"]}, "tool_choice: must be auto, none, required or a tool"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.name: must be a string"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type: 'grammar' is unknown"),
        ({"n": 2}, "n: a response holds one choice"),
        ({"background": True}, "background: "),
        ({"previous_response_id": "resp_1"}, "previous_response_id: no state is kept"),
    ],
)
def test_what_chat_cannot_express_is_refused_with_its_place(change: JsonObject, said: str) -> None:
    with pytest.raises(ModelRequestError) as refused:
        chat_request({"input": "Hello", **change})
    assert said in str(refused.value)


@given(params=damaged(EVERYTHING))
def test_a_damaged_request_is_sent_or_refused_but_never_breaks(params: Any) -> None:
    if isinstance(params, dict):
        with suppress(ModelRequestError):
            assert chat_request(params)["messages"] is not None


@given(items=json_values)
def test_any_input_is_sent_or_refused(items: Any) -> None:
    with suppress(ModelRequestError):
        assert chat_request({"input": items})["messages"] is not None
