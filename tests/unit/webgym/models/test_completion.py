"""What a chat completion says, in the shapes that servers give it."""

import json
from array import array
from typing import Any

import pytest

from rollgym.records import NO_USAGE, ModelMalformedError, Usage
from rollgym.records.tokens import TokenSample
from webgym.models.completion import Completion, read_completion


def completion(message: object, finish: str | None = "stop", **more: Any) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": finish, **more.pop("choice", {})}
    return json.dumps({"id": "c1", "model": "m", "choices": [choice], **more}).encode()


def said(content: object, **more: object) -> dict[str, object]:
    return {"role": "assistant", "content": content, **more}


def test_an_answer_is_its_text_and_why_it_ended() -> None:
    assert read_completion(completion(said("Hello."))) == Completion(
        text="Hello.", finish_reason="stop", model="m", usage=NO_USAGE
    )


def test_usage_is_counted_with_its_details() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    assert read_completion(completion(said("a"), usage=usage)).usage == Usage(100, 7, 64, 3)


def test_the_text_is_all_that_the_model_said() -> None:
    for message, text in [
        (said("b", reasoning_content="a"), "<think>a</think>b"),
        (said("b", reasoning="a"), "<think>a</think>b"),
        (said(None, reasoning_content="a"), "<think>a</think>"),
        (said("", reasoning=None), ""),
        (said(None, refusal="I cannot."), "I cannot."),
        (said([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "ab"),
        (said([{"type": "refusal", "refusal": "no"}]), "no"),
    ]:
        assert read_completion(completion(message)).text == text


def test_an_answer_that_a_filter_took_away_is_an_empty_text() -> None:
    answer = read_completion(completion(said(None), finish="content_filter"))
    assert (answer.text, answer.finish_reason) == ("", "content_filter")


def test_a_malformed_response_is_rejected_with_its_place() -> None:
    for answer, says in [
        (b"{}", "choices: there are none"),
        (b'{"choices": []}', "choices: there are none"),
        (b'{"choices": [7]}', "choices[0]"),
        (b'{"choices": [{}]}', "choices[0].message"),
        (b"[]", "cannot be read"),
        (b"<html>", "cannot be read"),
        (completion(said(None)), "choices[0].message.content: there is none"),
        (completion(said(7)), "choices[0].message.content"),
        (completion(said("half"), finish="abort"), "the server aborted the reply (abort)"),
        (
            completion(said(None, tool_calls=[{"function": {"name": "computer_use"}}])),
            "without a tool-call parser",
        ),
    ]:
        with pytest.raises(ModelMalformedError) as raised:
            read_completion(answer)
        assert says in str(raised.value)


TOKENS: dict[str, Any] = {
    "prompt_token_ids": [1, 2, 3],
    "choice": {
        "token_ids": [7, 8],
        "logprobs": {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": 0}]},
    },
}


def test_the_exact_tokens_are_kept_where_the_server_gives_them() -> None:
    answer = read_completion(completion(said("ab"), **TOKENS))
    assert answer.tokens == TokenSample(
        prompt=array("Q", [1, 2, 3]),
        sampled=array("Q", [7, 8]),
        logprobs=[-0.5, 0],
    )


def test_tokens_that_do_not_fit_together_are_marked_and_the_text_kept() -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"token_ids": [7]}, "there are 2 log probabilities for 1 generated tokens"),
        ({"token_ids": ["7", "8"]}, "must hold whole numbers from 0"),
        ({"logprobs": {"content": "?"}}, "must be an array"),
    ]
    for changed, says in cases:
        tokens = {**TOKENS, "choice": {**TOKENS["choice"], **changed}}
        answer = read_completion(completion(said("ab"), **tokens))
        assert answer.text == "ab"
        assert answer.tokens is not None
        assert answer.tokens.logprobs is None
        assert says in answer.tokens.problem


def test_an_answer_without_tokens_has_none() -> None:
    answer = read_completion(completion(said("a"), choice={"logprobs": None, "token_ids": None}))
    assert answer.tokens is None
