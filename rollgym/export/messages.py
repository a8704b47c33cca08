"""A rollout as chat messages: the prompt, the completion of the agent and its tools, and the tools.

The prompt is the rollout's request, converted as for a chat endpoint. The completion is the
transcript that a collection wrote, or is made from the `response` where there is none, as in files
of NeMo Gym. A transcript has a text and the calls after it in separate entries. The
model wrote them in one turn and chat templates expect one message, so here they are joined.
"""

from typing import Any

import msgspec

from rollgym.export.source import ExportedConversation
from rollgym.records import ModelRequestError
from rollgym.records.decoding import JsonDecoder
from rollgym.rollouts.rows import OWN_OUTPUT
from rollgym.servers.responses import JsonObject, chat_request, chat_transcript

_ROLES = frozenset({"assistant", "tool", "user", "system", "developer"})
_REQUEST_FIELDS = ("instructions", "input", "tools")


class ConversationError(ValueError):
    """The rollout cannot be written as chat messages; the message says where and why."""


class _RolloutRow(msgspec.Struct):
    responses_create_params: JsonObject
    response: Any = None
    output: Any = None
    own_output: list[JsonObject] | None = msgspec.field(default=None, name=OWN_OUTPUT)


_DECODER = JsonDecoder(_RolloutRow)


def conversation(line: bytes) -> ExportedConversation:
    """Read the conversation of a line of a file of rollouts. Raises ConversationError."""
    try:
        row = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConversationError(f"this line is not a valid rollout ({error})") from error
    request = row.responses_create_params
    given = {name: request[name] for name in _REQUEST_FIELDS if request.get(name) is not None}
    try:
        chat = chat_request(given)
    except ModelRequestError as error:
        raise ConversationError(
            f"responses_create_params cannot be converted to chat messages ({error})"
        ) from error
    completion = _completion(_transcript(row))
    return ExportedConversation(chat["messages"], completion, chat.get("tools", []))


def _transcript(row: _RolloutRow) -> list[JsonObject]:
    if row.own_output is not None:
        return row.own_output
    items = row.response.get("output") if isinstance(row.response, dict) else None
    if isinstance(row.output, list) and (items is None or all(map(_has_role, row.output))):
        if not all(isinstance(entry, dict) for entry in row.output):
            raise ConversationError("`output` is not a list of messages")
        return row.output
    if not isinstance(items, list):
        raise ConversationError("this line is not a valid rollout (it has no `response.output`)")
    return chat_transcript(items)


def _has_role(entry: object) -> bool:
    return isinstance(entry, dict) and entry.get("role") in _ROLES


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
        raise ConversationError(f"{where}: the role {role!r} is not a role of chat messages")
    content = entry.get("content")
    if content is not None and not isinstance(content, str | list):
        raise ConversationError(f"{where}: the content must be a text or a list, not {content!r}")
    if content is None and not entry.get("tool_calls") and not entry.get("refusal"):
        raise ConversationError(f"{where}: the entry has neither content nor tool calls")
    message = {"role": role, "content": content, **entry}
    if entry.get("reasoning"):
        # Templates read one name or the other, and ignore the one they do not know.
        message["reasoning_content"] = entry["reasoning"]
    return message


def _continues(message: JsonObject, following: JsonObject) -> bool:
    """Whether a text and the following calls are one turn."""
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
