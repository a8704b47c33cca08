"""What vLLM needs of the messages it is sent.

Two things that are right in a conversation make vLLM fail it or forget it:

- It decodes the arguments of earlier tool calls for the chat template, and most versions answer 400
  where they are not a JSON object. The model's slip would then be the end of its rollout. Arguments
  that are none are sent inside an object that is.
- Most chat templates know no `developer` and pass over what it says. It is sent as `system`.

The rollout itself keeps what was said as it was said.
"""

from typing import Any

import msgspec

MALFORMED_ARGUMENTS = "malformed_arguments"
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def acceptable(messages: Any) -> Any:
    """The same messages as vLLM takes them; what has no shape to be mended is vLLM's to refuse."""
    if not isinstance(messages, list):
        return messages
    return [_acceptable_message(each) if isinstance(each, dict) else each for each in messages]


def _acceptable_message(message: dict[str, Any]) -> dict[str, Any]:
    if message.get("role") == "developer":
        return {**message, "role": "system"}
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return {**message, "tool_calls": [_acceptable_call(call) for call in calls]}
    return message


def _acceptable_call(call: Any) -> Any:
    match call:
        case {"function": {"arguments": str(arguments)}} if not _is_object(arguments):
            return {**call, "function": {**call["function"], "arguments": _wrapped(arguments)}}
        case _:
            return call


def _is_object(arguments: str) -> bool:
    try:
        _OBJECT.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _wrapped(arguments: str) -> str:
    if not arguments.strip():
        return "{}"
    return msgspec.json.encode({MALFORMED_ARGUMENTS: arguments}).decode()
