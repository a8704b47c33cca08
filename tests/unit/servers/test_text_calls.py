"""Calls of tools in texts."""

import json
import time

import pytest

from rollgym.servers.text_calls import find_text_call

TOOLS = {"get_weather"}
CALL = '{"name": "get_weather", "arguments": {"city": "Oslo {1}"}}'
MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    ("text", "head"),
    [
        (CALL, ""),
        (f"I ask for it: {CALL}\n", "I ask for it:"),
        (f"Now.\n<tool_call>\n{CALL}\n</tool_call>", "Now."),
        (f"```json\n{CALL}\n```", ""),
        (CALL.replace("arguments", "parameters"), ""),
        (f'{{"type": "function", "function": {CALL}}}', ""),
        (f'{{"name": "x"}} is no call, but {CALL}', '{"name": "x"} is no call, but'),
    ],
)
def test_a_text_that_ends_with_a_call_of_a_known_tool_is_that_call(text: str, head: str) -> None:
    call = find_text_call(text, TOOLS)
    assert call is not None
    assert (call.name, call.head) == ("get_weather", head)
    assert json.loads(call.arguments) == {"city": "Oslo {1}"}


@pytest.mark.parametrize(
    "text",
    [
        "It is 12 degrees.",
        CALL.replace("get_weather", "get_time"),
        f"{CALL} is what I could call.",
        f"{CALL} {CALL}",
        CALL[:-1],
        '{"name": "get_weather"}',
        '{"name": "get_weather", "arguments": "Oslo"}',
        '{"name": "get_weather", "arguments": {}, "why": "because"}',
    ],
)
def test_any_other_text_stays_a_text(text: str) -> None:
    assert find_text_call(text, TOOLS) is None


@pytest.mark.parametrize(
    "repeated",
    ['{"name":', '{"name": {', '{"name": "a"}', "{", "{ ", f"{CALL} ", "<tool_call>", "[" * 9],
)
def test_a_hostile_text_is_read_in_linear_time(repeated: str) -> None:
    for text in (repeated * (MEGABYTE // len(repeated)), '{"name": ' + repeated * 100_000):
        began = time.thread_time()
        find_text_call(text, TOOLS)
        assert time.thread_time() - began < 1.0
