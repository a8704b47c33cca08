from typing import Any

from hypothesis import given

from rollgym.viewer.transcript import Picture, ToolCall, Turn, output_turns, prompt_turns
from tests.unit.servers.responses.strategies import json_values

PIXEL = "data:image/png;base64,AAAA"


def asked(content: Any) -> list[Turn]:
    return prompt_turns({"input": [{"role": "user", "content": content}]})


def test_instructions_and_a_plain_input_are_a_system_and_a_user_turn() -> None:
    turns = prompt_turns({"instructions": "Be brief.", "input": "Hello"})
    assert turns == [Turn("system", ("Be brief.",)), Turn("user", ("Hello",))]


def test_a_result_is_named_after_the_call_it_answers() -> None:
    call = {"id": "c", "function": {"name": "add", "arguments": '{"a": 1}'}}
    output = [
        {"role": "assistant", "content": None, "reasoning": "Hm.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "2"},
    ]
    assert output_turns(output, None) == [
        Turn("assistant", (), "Hm.", (ToolCall("add", {"a": 1}),)),
        Turn("tool", ("2",), tool="add"),
    ]


def test_arguments_that_are_no_json_are_shown_as_they_are() -> None:
    output = [{"role": "assistant", "tool_calls": [{"name": "add", "arguments": "{a: 1"}]}]
    assert output_turns(output, None)[0].calls == (ToolCall("add", "{a: 1"),)


def test_only_a_picture_in_the_row_itself_is_a_picture() -> None:
    inside, outside = {"type": "input_image", "image_url": PIXEL}, "http://x.org/a.png"
    turns = asked([inside, {"type": "input_image", "image_url": outside}])
    assert turns == [Turn("user", (Picture(PIXEL), f"(a picture elsewhere) {outside}"))]


def test_a_message_with_parts_of_an_unknown_kind_keeps_its_role() -> None:
    assert asked([{"type": "sound", "hz": 440}]) == [
        Turn("user", ('{"type": "sound", "hz": 440}',))
    ]


def test_a_row_without_output_is_read_from_its_response() -> None:
    items = [{"type": "message", "role": "assistant", "content": "Hi"}, {"type": "odd"}]
    turns = output_turns(None, {"output": items})
    assert turns == [Turn("assistant", ("Hi",)), Turn("assistant", ('{"type": "odd"}',))]


@given(json_values)
def test_nothing_that_a_row_can_hold_is_an_error(value: Any) -> None:
    prompt_turns(value)
    prompt_turns({"instructions": value, "input": value})
    prompt_turns({"input": [value, {"role": value, "content": value}]})
    output_turns(value, value)
    output_turns([value, {"role": value, "content": [value], "tool_calls": [value]}], None)
    output_turns([{"reasoning": value, "item": value, "tool_calls": [{"function": value}]}], None)
    output_turns([{"tool_calls": [{"id": value, "function": {"arguments": value}}]}], None)
