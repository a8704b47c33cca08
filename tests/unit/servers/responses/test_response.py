from typing import Any

from hypothesis import given

from rollgym.records import NO_USAGE, Usage
from rollgym.servers.responses import FunctionCall, JsonObject, Response
from tests.unit.servers.responses.strategies import damaged, json_values

ANSWER: JsonObject = {
    "id": "resp_1",
    "model": "served-model",
    "status": "incomplete",
    "incomplete_details": {"reason": "max_output_tokens"},
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Looking it up."}],
        },
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": 1}'},
        {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "not JSON"},
        {"type": "function_call_output", "call_id": "c1", "output": "a door"},
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "There is "},
                {"type": "output_text", "text": "a door."},
                {"type": "refusal", "refusal": "I will not open it."},
            ],
        },
        {"type": "message", "role": "user", "content": "Open it."},
    ],
    "usage": {
        "input_tokens": 11,
        "output_tokens": 5,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 2},
    },
}
PROPERTIES = (
    "id",
    "model",
    "status",
    "incomplete_reason",
    "output",
    "text",
    "refusal",
    "function_calls",
    "usage",
)


def test_the_text_is_that_of_the_last_assistant_message() -> None:
    assert Response.of(ANSWER).text == "There is a door."


def test_every_call_is_listed_with_its_arguments_as_written() -> None:
    assert Response.of(ANSWER).function_calls == [
        FunctionCall("c1", "look", '{"at": 1}'),
        FunctionCall("c2", "look", "not JSON"),
    ]


def test_everything_else_is_read_from_the_object() -> None:
    response = Response.of(ANSWER)
    assert response.id == "resp_1"
    assert response.model == "served-model"
    assert response.status == "incomplete"
    assert response.incomplete_reason == "max_output_tokens"
    assert response.refusal == "I will not open it."
    assert response.usage == Usage(11, 5, 4, 2)
    assert response.output == ANSWER["output"]
    assert response.raw is ANSWER


def test_an_empty_object_reads_as_nothing() -> None:
    response = Response.of({})
    assert (response.text, response.refusal, response.incomplete_reason) == ("", None, None)
    assert (response.output, response.function_calls) == ([], [])
    assert response.usage == NO_USAGE


def test_a_message_with_plain_text_for_content_has_that_text() -> None:
    response = Response.of({"output": [{"role": "assistant", "content": "Four."}]})
    assert response.text == "Four."
    assert response.refusal is None


@given(raw=damaged(ANSWER))
def test_no_damage_makes_a_property_raise(raw: Any) -> None:
    if isinstance(raw, dict):
        for name in PROPERTIES:
            getattr(Response.of(raw), name)


@given(raw=json_values)
def test_any_output_at_all_can_be_looked_at(raw: Any) -> None:
    response = Response.of({"output": [raw, raw]})
    assert isinstance(response.text, str)
    assert "output items" in repr(response)
