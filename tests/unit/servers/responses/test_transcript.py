from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rollgym.servers.responses import JsonObject, chat_transcript
from tests.cases import for_each
from tests.unit.servers.responses.strategies import damaged, json_values


def said(text: str) -> JsonObject:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "content": [part]}


def call(identity: str) -> JsonObject:
    return {"type": "function_call", "call_id": identity, "name": "search", "arguments": "{}"}


def entry(identity: str) -> JsonObject:
    function = {"name": "search", "arguments": "{}"}
    return {"id": identity, "type": "function", "function": function}


def answered(identity: str, output: Any) -> JsonObject:
    return {"type": "function_call_output", "call_id": identity, "output": output}


def reasoned(text: str) -> JsonObject:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


EPISODE = [
    reasoned("Where is it?"),
    said("I'll search the document."),
    call("a"),
    call("b"),
    answered("a", "Found: X"),
    answered("b", "Nothing."),
    reasoned("X it is."),
    said("The answer is X."),
]


def test_an_episode_reads_as_a_chat() -> None:
    assert chat_transcript(EPISODE) == [
        {"role": "assistant", "content": "I'll search the document.", "reasoning": "Where is it?"},
        {"role": "assistant", "tool_calls": [entry("a"), entry("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "Found: X"},
        {"role": "tool", "tool_call_id": "b", "content": "Nothing."},
        {"role": "assistant", "content": "The answer is X.", "reasoning": "X it is."},
    ]


def test_calls_of_different_turns_are_different_entries() -> None:
    episode = [call("a"), answered("a", "x"), call("b"), answered("b", "y")]
    roles = [each["role"] for each in chat_transcript(episode)]
    assert roles == ["assistant", "tool", "assistant", "tool"]


def test_reasoning_before_a_call_stands_with_the_call() -> None:
    (only,) = chat_transcript([reasoned("Hm."), call("a")])
    assert (only["reasoning"], only["tool_calls"]) == ("Hm.", [entry("a")])


def test_reasoning_that_led_to_nothing_is_kept() -> None:
    assert chat_transcript([reasoned("Hm.")]) == [
        {"role": "assistant", "content": "", "reasoning": "Hm."}
    ]


def test_what_others_said_during_the_episode_is_kept() -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "More."}]}
    assert chat_transcript([item]) == [{"role": "user", "content": "More."}]


def test_a_refusal_is_told() -> None:
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "refusal", "refusal": "No."}],
    }
    assert chat_transcript([item]) == [{"role": "assistant", "content": "", "refusal": "No."}]


def test_several_texts_of_a_tool_are_one_text() -> None:
    parts = [{"type": "input_text", "text": "One."}, {"type": "input_text", "text": "Two."}]
    (only,) = chat_transcript([answered("a", parts)])
    assert only["content"] == "One.\nTwo."


def test_an_image_of_a_tool_is_kept_as_a_part() -> None:
    (only,) = chat_transcript(
        [answered("a", [{"type": "input_image", "image_url": "https://example.org/a.png"}])]
    )
    assert only["content"] == [
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    ]


@for_each(
    "item",
    [
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "function_call_output", "call_id": "a", "output": {"not": "text"}},
    ],
)
def test_an_item_that_cannot_be_read_is_kept_whole(item: JsonObject) -> None:
    assert chat_transcript([item, said("So.")]) == [
        {"role": "assistant", "item": item},
        {"role": "assistant", "content": "So."},
    ]


@given(items=damaged(EPISODE) | st.lists(json_values))
def test_no_damage_can_fail_a_transcript(items: Any) -> None:
    if isinstance(items, list):
        for each in chat_transcript(items):
            assert "role" in each
