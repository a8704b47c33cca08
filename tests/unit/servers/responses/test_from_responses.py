from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given

from rollgym.records import ModelMalformedError
from rollgym.servers.responses import JsonObject, chat_from_response
from tests.unit.servers.responses.strategies import damaged, json_values

LOGPROBS = [{"token": "So.", "logprob": -0.5, "bytes": None, "top_logprobs": []}]
TOKENS = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}
EVERYTHING: JsonObject = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1_700_000_000.0,
    "status": "completed",
    "incomplete_details": None,
    "model": "served-model",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "So.", "annotations": [], "logprobs": LOGPROBS}
            ],
        },
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}", **TOKENS},
    ],
    "usage": {
        "input_tokens": 7,
        "output_tokens": 3,
        "total_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 2},
    },
}


def test_a_whole_response_becomes_a_whole_completion() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    assert chat_from_response(EVERYTHING) == {
        "id": "resp_1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "served-model",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "So.",
                    "refusal": None,
                    "reasoning_content": "Hm.",
                    "tool_calls": [call],
                    **TOKENS,
                },
                "finish_reason": "tool_calls",
                "logprobs": {"content": LOGPROBS},
            }
        ],
        "usage": {
            "prompt_tokens": 7,
            "completion_tokens": 3,
            "total_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
    }


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter")]
)
def test_why_an_answer_was_cut_short_is_told(reason: str, finish: str) -> None:
    response = {"status": "incomplete", "incomplete_details": {"reason": reason}, "output": []}
    assert chat_from_response(response)["choices"][0]["finish_reason"] == finish


def test_an_answer_without_calls_stopped_by_itself() -> None:
    item = {"type": "message", "role": "assistant", "content": "So."}
    assert chat_from_response({"output": [item]})["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (None, "must be an object, not null"),
        ({}, "output: must be an array, not null"),
        ({"output": [5]}, "output[0]: must be an object, not a number"),
        ({"output": [{"type": "function_call"}]}, "output[0].call_id: must be a string"),
        (
            {"output": [], "status": "failed", "error": {"code": "server_error"}},
            "status: failed; error: {'code': 'server_error'}",
        ),
        ({"output": [], "status": "in_progress"}, "status: in_progress"),
        ({"output": [], "usage": 5}, "usage: must be an object"),
    ],
)
def test_a_malformed_or_failed_response_is_refused_with_what_is_wrong(
    response: Any, said: str
) -> None:
    with pytest.raises(ModelMalformedError) as refused:
        chat_from_response(response)
    assert "the response cannot be read: " in str(refused.value)
    assert said in str(refused.value)


@given(response=damaged(EVERYTHING) | json_values)
def test_a_damaged_response_is_read_or_refused_but_never_breaks(response: Any) -> None:
    with suppress(ModelMalformedError):
        assert chat_from_response(response)["choices"]
