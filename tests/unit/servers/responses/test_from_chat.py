from typing import Any

import msgspec
import pytest
from hypothesis import example, given

from rollgym.records import ModelMalformedError, Usage
from rollgym.servers.exact_tokens import completion_reader
from rollgym.servers.responses import JsonObject, Response, response_from_chat
from tests.cases import for_each
from tests.unit.servers.responses.strategies import completion_of, damaged, json_values

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
LOGPROBS = [
    {"token": "So", "logprob": -0.5, "bytes": [83, 111], "top_logprobs": []},
    {"token": ".", "logprob": -1, "bytes": [46], "top_logprobs": []},
]
EVERYTHING: JsonObject = {
    **completion_of(
        {"role": "assistant", "content": "So.", "reasoning": "Hm.", "tool_calls": [CALL]},
        finish_reason="tool_calls",
        logprobs={"content": LOGPROBS},
        token_ids=[21, 22],
    ),
    "prompt_token_ids": [1, 2, 3],
    "usage": {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "total_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    },
}
LLAMA_CPP: JsonObject = {
    **completion_of(
        {"role": "assistant", "content": "So."},
        finish_reason="length",
        logprobs={"content": [{"id": 21 + n, **each} for n, each in enumerate(LOGPROBS)]},
    ),
    "system_fingerprint": "b1",
    "timings": {"prompt_ms": 1.5},
}


def test_a_whole_completion_becomes_a_whole_response() -> None:
    tools = [{"type": "function", "name": "look"}]
    params = {
        "input": "x",
        "tools": tools,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "metadata": {"run": "1"},
        "max_output_tokens": None,
        "include": ["message.output_text.logprobs"],
    }
    assert response_from_chat(EVERYTHING, params) == {
        "id": "resp_42",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "served-model",
        "output": [
            {
                "type": "reasoning",
                "id": "rs_42",
                "summary": [{"type": "summary_text", "text": "Hm."}],
                "status": "completed",
            },
            {
                "type": "message",
                "id": "msg_42",
                "role": "assistant",
                "content": [
                    {
                        "type": "output_text",
                        "text": "So.",
                        "annotations": [],
                        "logprobs": LOGPROBS,
                    }
                ],
                "status": "completed",
            },
            {
                "type": "function_call",
                "id": "fc_42_0",
                "call_id": "c1",
                "name": "look",
                "arguments": "{}",
                "status": "completed",
                "prompt_token_ids": [1, 2, 3],
                "generation_token_ids": [21, 22],
                "generation_log_probs": [-0.5, -1],
            },
        ],
        "usage": {
            "input_tokens": 7,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 10,
        },
        "tools": tools,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "metadata": {"run": "1"},
    }


def test_the_view_reads_the_same() -> None:
    response = Response.of(response_from_chat(EVERYTHING, {}))
    assert response.text == "So."
    assert response.function_calls[0].call_id == "c1"
    assert response.usage == Usage(7, 3, 4, 2)


@for_each(
    ("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
def test_an_answer_cut_short_is_incomplete_and_says_why(finish: str, reason: str) -> None:
    completion = completion_of({"content": "So"}, finish_reason=finish)
    response = response_from_chat(completion, {})
    assert response["status"] == response["output"][-1]["status"] == "incomplete"
    assert Response.of(response).incomplete_reason == reason


@for_each("finish", ["abort", "error"])
def test_an_answer_that_the_server_broke_off_is_no_answer(finish: str) -> None:
    with pytest.raises(ModelMalformedError, match="aborted the completion"):
        response_from_chat(completion_of({"content": "So"}, finish_reason=finish), {})


def test_an_empty_answer_is_a_message_without_text() -> None:
    response = response_from_chat(completion_of({"content": None}), {})
    assert [item["type"] for item in response["output"]] == ["message"]
    assert Response.of(response).text == ""


def test_an_answer_cut_short_while_reasoning_holds_the_reasoning_alone() -> None:
    completion = completion_of({"content": None, "reasoning": "Hm"}, finish_reason="length")
    (item,) = response_from_chat(completion, {})["output"]
    assert (item["type"], item["status"]) == ("reasoning", "incomplete")


def test_a_refusal_is_a_part_of_its_own() -> None:
    response = response_from_chat(completion_of({"content": None, "refusal": "No."}), {})
    (item,) = response["output"]
    assert item["content"] == [{"type": "refusal", "refusal": "No."}]
    assert Response.of(response).refusal == "No."


def test_the_texts_of_tokens_are_kept_only_where_they_were_asked_for() -> None:
    completion = completion_of({"content": "So."}, logprobs={"content": LOGPROBS})
    (item,) = response_from_chat(completion, {})["output"]
    assert "logprobs" not in item["content"][0]
    assert item["generation_log_probs"] == [-0.5, -1]
    alternative = {"token": "So", "logprob": -0.5, "bytes": [83, 111]}
    given = [{**each, "top_logprobs": [alternative]} for each in LOGPROBS]
    completion = completion_of({"content": "So."}, logprobs={"content": given})
    (item,) = response_from_chat(completion, {"include": ["message.output_text.logprobs"]})[
        "output"
    ]
    assert item["content"][0]["logprobs"] == LOGPROBS  # without alternatives
    (item,) = response_from_chat(completion, {"top_logprobs": 1})["output"]
    assert item["content"][0]["logprobs"] == given


def test_tokens_are_found_on_the_choice_and_on_the_message_too() -> None:
    on_choice = completion_of({"content": "So."}, prompt_token_ids=[1], token_ids=[2])
    (item,) = response_from_chat(on_choice, {})["output"]
    assert (item["prompt_token_ids"], item["generation_token_ids"]) == ([1], [2])
    tokens = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.1]}
    on_message = completion_of({"content": "So.", **tokens})
    (item,) = response_from_chat(on_message, {})["output"]
    assert {name: item[name] for name in tokens} == tokens


def test_tokens_are_passed_on_as_they_are_and_never_a_reason_to_sample_again() -> None:
    completion = completion_of({"content": "So."}, token_ids=[1], logprobs={"content": LOGPROBS})
    (item,) = response_from_chat(completion, {})["output"]
    assert (item["generation_token_ids"], item["generation_log_probs"]) == ([1], [-0.5, -1])


@for_each(
    ("content", "reasoning", "text"),
    [
        ("<think>Hm.\n</think>\n\nSo.", "Hm.\n", "\n\nSo."),
        ("\n<think>Hm.</think>So.", "Hm.", "So."),
        ("Hm.</think>So.", "Hm.", "So."),
        ("<think>Hm", "Hm", ""),
        ("So.", "", "So."),
        ("Use <think> and </think>.", "", "Use <think> and </think>."),
        ("<think></think>So.", "", "So."),
    ],
)
def test_reasoning_in_the_text_is_taken_out_where_asked(
    content: str, reasoning: str, text: str
) -> None:
    completion = completion_of({"content": content})
    response = response_from_chat(completion, {}, think_tags=True)
    found = [item["summary"][0]["text"] for item in response["output"] if "summary" in item]
    assert (found, Response.of(response).text) == ([reasoning] if reasoning else [], text)
    assert Response.of(response_from_chat(completion, {})).text == content


def test_without_an_id_the_response_gets_one_of_its_own() -> None:
    completion = {**completion_of({"content": "So."}), "id": None}
    first, second = (response_from_chat(completion, {})["id"] for _ in range(2))
    assert first.startswith("resp_")
    assert first != second


def test_a_completion_without_usage_has_none() -> None:
    assert response_from_chat({**EVERYTHING, "usage": None}, {})["usage"] is None


@for_each(
    ("completion", "said"),
    [
        ([], "must be an object, not an array"),
        ({}, "choices: missing or empty in {}"),
        ({"error": {"message": "out of memory"}}, "out of memory"),
        ({"choices": []}, "choices: missing or empty"),
        ({"choices": "x"}, "choices: must be an array, not a string"),
        ({"choices": [None]}, "choices[0]: must be an object, not null"),
        (completion_of(None), "choices[0].message: must be an object, not null"),  # type: ignore[arg-type]
        (completion_of({"content": ["So."]}), "choices[0].message.content: must be a string"),
        (completion_of({"tool_calls": {}}), "choices[0].message.tool_calls: must be an array"),
        (
            completion_of({"tool_calls": [{**CALL, "function": {"name": "a", "arguments": {}}}]}),
            "choices[0].message.tool_calls[0].function.arguments: must be a string, not an object",
        ),
        ({**EVERYTHING, "usage": []}, "usage: must be an object"),
        ({**EVERYTHING, "usage": {"prompt_tokens": -1}}, "prompt_tokens: must be a whole number"),
    ],
)
def test_a_malformed_completion_is_refused_with_what_is_wrong(completion: Any, said: str) -> None:
    with pytest.raises(ModelMalformedError) as refused:
        response_from_chat(completion, {})
    assert "the chat completion cannot be read: " in str(refused.value)
    assert said in str(refused.value)


@given(completion=damaged(EVERYTHING))
def test_a_damaged_completion_is_read_or_refused_but_never_breaks(completion: Any) -> None:
    try:
        response = response_from_chat(completion, {"top_logprobs": 1})
    except ModelMalformedError:
        return
    assert response["output"]


@given(completion=damaged(EVERYTHING) | damaged(LLAMA_CPP))
@example(EVERYTHING | {"prompt_token_ids": None})
@example(completion_of({"content": "So."}, token_ids=None, logprobs=None))
@example(completion_of({"content": "So."}, token_ids=[1, None], logprobs={"content": [{}]}))
@example({"choices": [], "error": "out of memory"})
def test_a_completion_that_is_read_in_part_gives_the_same_response(completion: Any) -> None:
    answer, found = msgspec.json.encode(completion), list[object]()
    for whole in (True, False):
        try:
            read = completion_reader(whole=whole)(answer)
            response = response_from_chat({**read, "id": "1", "created": 1}, {})
            found.append(msgspec.json.decode(msgspec.json.encode(response)))
        except (ModelMalformedError, msgspec.DecodeError) as error:
            found.append(str(error))
    assert found[0] == found[1]


@given(completion=json_values)
def test_any_other_json_is_refused(completion: Any) -> None:
    with pytest.raises(ModelMalformedError):
        response_from_chat(completion, {})
