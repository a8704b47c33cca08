from typing import Any

import msgspec
import pytest

from rollgym.export.messages import ConversationError, conversation
from rollgym.export.source import ExportedConversation

PARAMS = {
    "instructions": "Be brief.",
    "input": [{"role": "user", "content": "Find it."}],
    "tools": [{"type": "function", "name": "search", "parameters": {"type": "object"}}],
    "temperature": 0.7,
    "stream": True,
}
CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": 1}'}}
CALLED = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": {"q": 1}}}
OUTPUT = [
    {"role": "assistant", "content": "I look.", "reasoning": "Where?"},
    {"role": "assistant", "tool_calls": [CALL], "reasoning": "There."},
    {"role": "tool", "tool_call_id": "c1", "content": "found"},
    {"role": "assistant", "content": "It is X."},
]


def read(output: Any = OUTPUT, params: Any = PARAMS) -> ExportedConversation:
    return conversation(
        msgspec.json.encode({"responses_create_params": params, "output": output, "reward": 1.0})
    )


def test_the_prompt_and_the_tools_are_what_a_chat_endpoint_would_get() -> None:
    found = read()
    assert found.prompt == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Find it."},
    ]
    function = {"name": "search", "parameters": {"type": "object"}}
    assert found.tools == [{"type": "function", "function": function}]
    found = read(params={"input": "Find it."})
    assert found.prompt == [{"role": "user", "content": "Find it."}]
    assert found.tools == []


def test_texts_and_calls_are_joined_within_a_turn_only() -> None:
    first, answer, last = read().completion
    assert first == {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [CALLED],
        "reasoning": "Where?\nThere.",
        "reasoning_content": "Where?\nThere.",
    }
    assert answer == OUTPUT[2]
    assert last == OUTPUT[3]
    output = [
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": ""},
        {"role": "assistant", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "assistant", "content": "three", "tool_calls": [CALL]},
    ]
    messages = read(output).completion
    assert [message["content"] for message in messages] == [None, None, "", "one", "two", "three"]


def test_what_chat_cannot_express_is_rejected_with_its_position() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"content": "x"}, "output[1]: the role None is not a role of chat messages"),
        (
            {"role": "bot", "content": "x"},
            "output[1]: the role 'bot' is not a role of chat messages",
        ),
        ({"role": "assistant", "content": 3}, "output[1]: the content must be a text or a list"),
        ({"role": "assistant", "item": {"type": "web_search"}}, "output[1]: the entry has neither"),
    ]
    for entry, problem in cases:
        with pytest.raises(ConversationError) as refusal:
            read([OUTPUT[0], entry])
        assert str(refusal.value).startswith(problem)
    with pytest.raises(ConversationError, match=r"responses_create_params .*input\[0\]"):
        read(params={"input": [{"type": "computer_call"}]})
    for line in (b"", b"[]", b"{}", b'{"output": []}', b"{", b'{"output": "\xff"}'):
        with pytest.raises(ConversationError, match="this line is not a valid rollout"):
            conversation(line)
