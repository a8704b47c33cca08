"""A rollout as chat messages: the prompt, what the agent and its tools added, and the tools.

The prompt is the rollout's request, converted as for a chat endpoint. The rest is its `output`, the
transcript. That gives a text and the calls after it in entries of their own; the model wrote them
in one turn, and chat templates want one message for it, so here they are one.
"""

from typing import Any

import msgspec

from rollgym.records import ModelRequestError
from rollgym.servers.responses import JsonObject, chat_request

_ROLES = frozenset({"assistant", "tool", "user", "system", "developer"})
_ASKING = ("instructions", "input", "tools")


class ConversationError(ValueError):
    """The rollout cannot be written as chat messages; says where and why."""


class Conversation(msgspec.Struct, frozen=True):
    """A rollout's prompt and completion, and the tools the model could call."""

    prompt: list[JsonObject]
    completion: list[JsonObject]
    tools: list[JsonObject]


class _Row(msgspec.Struct):
    responses_create_params: JsonObject
    output: list[JsonObject]


_DECODER = msgspec.json.Decoder(_Row)


def conversation(line: bytes) -> Conversation:
    """The conversation of a line of the rollouts' file. Raises ConversationError."""
    try:
        row = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConversationError(f"this is no rollout ({error})") from error
    request = row.responses_create_params
    asking = {name: request[name] for name in _ASKING if request.get(name) is not None}
    try:
        chat = chat_request(asking)
    except ModelRequestError as error:
        raise ConversationError(
            f"responses_create_params are no chat messages ({error})"
        ) from error
    return Conversation(chat["messages"], _completion(row.output), chat.get("tools", []))


def _completion(output: list[JsonObject]) -> list[JsonObject]:
    messages: list[JsonObject] = []
    for index, entry in enumerate(output):
        message = _message(entry, f"output[{index}]")
        if messages and _continues(messages[-1], message):
            messages[-1] = _joined(messages[-1], message)
        else:
            messages.append(message)
    return messages


def _message(entry: JsonObject, where: str) -> JsonObject:
    role = entry.get("role")
    if role not in _ROLES:
        raise ConversationError(f"{where}: the role must be one of chat's, not {role!r}")
    content = entry.get("content")
    if content is not None and not isinstance(content, str | list):
        raise ConversationError(f"{where}: the content must be text or parts, not {content!r}")
    if content is None and not entry.get("tool_calls") and not entry.get("refusal"):
        raise ConversationError(f"{where}: there is neither content nor a call that chat knows")
    message = {"role": role, "content": content, **entry}
    if entry.get("reasoning"):
        # Templates read one name or the other, and pass over the one they do not know.
        message["reasoning_content"] = entry["reasoning"]
    return message


def _continues(message: JsonObject, following: JsonObject) -> bool:
    """Whether a text and the calls after it are one turn."""
    return (
        message["role"] == following["role"] == "assistant"
        and not message.get("tool_calls")
        and bool(following.get("tool_calls"))
        and not following["content"]
    )


def _joined(message: JsonObject, calls: JsonObject) -> JsonObject:
    reasoning: list[Any] = [part["reasoning"] for part in (message, calls) if part.get("reasoning")]
    joined = {**calls, **message}
    if reasoning:
        joined["reasoning"] = joined["reasoning_content"] = "\n".join(map(str, reasoning))
    return joined
