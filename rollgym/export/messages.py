"""A rollout as chat messages, as the model saw them.

The items of the request and of the response become messages by the code that a model server sends
them with, in the form that the response notes (`ChatForm`): with another role for `developer`, for
example. The arguments of tool calls are objects, as chat templates get them. The last message of
the assistant was never sent back, so it keeps its reasoning.

An agent behind the gateway writes its own prompt. It is in the first of its `conversations`, and is
exported in place of the task's.

A file of another program may have a transcript in place of the `response`. It has a text and the
calls after it in separate entries. The model wrote them in one turn, so here they are joined.
"""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from rollgym.export.source import ExportedConversation
from rollgym.records import ModelRequestError
from rollgym.records.decoding import JsonDecoder
from rollgym.rollouts.rows import CALLS, OWN_OUTPUT
from rollgym.servers.responses import ChatForm, JsonObject, chat_request

_ROLES = frozenset({"assistant", "tool", "user", "system", "developer"})
_REQUEST_FIELDS = ("instructions", "input", "tools")


class ConversationError(ValueError):
    """The rollout cannot be written as chat messages; the message says where and why."""


class _Conversation(msgspec.Struct):
    parameters: JsonObject
    input: list[JsonObject]

    @property
    def request(self) -> JsonObject:
        return {**self.parameters, "input": self.input}


class _Calls(msgspec.Struct):
    conversations: list[_Conversation] = []


class _RolloutRow(msgspec.Struct):
    responses_create_params: JsonObject
    response: Any = None
    output: Any = None
    own_output: list[JsonObject] | None = msgspec.field(default=None, name=OWN_OUTPUT)
    calls: _Calls | None = msgspec.field(default=None, name=CALLS)

    @property
    def request(self) -> JsonObject:
        """The first request of the conversation."""
        if self.calls is not None and self.calls.conversations:
            return self.calls.conversations[0].request
        return self.responses_create_params


_DECODER = JsonDecoder(_RolloutRow)


def conversation(line: bytes) -> ExportedConversation:
    """Read the conversation of a line of a file of rollouts. Raises ConversationError."""
    try:
        row = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConversationError(f"this line is not a valid rollout ({error})") from error
    params, form = row.request, ChatForm.of(row.response)
    asked = {name: params[name] for name in _REQUEST_FIELDS if params.get(name) is not None}
    request = _request(asked, form, "responses_create_params")
    prompt = request["messages"]
    messages, begins = _messages(row, asked, prompt, form)
    sent = [_with_objects(form.sent(message)) for message in messages]
    if begins < len(messages):
        reply = msgspec.structs.replace(form, without_reasoning=False).sent(messages[-1])
        sent[-1] = _with_objects(reply)
    return ExportedConversation(
        prompt=sent[:begins],
        completion=sent[begins:],
        tools=request.get("tools", []),
        chat_template_kwargs=form.chat_template_kwargs,
        is_prompt_of_agent=row.calls is not None,
    )


def _messages(
    row: _RolloutRow, asked: JsonObject, prompt: list[JsonObject], form: ChatForm
) -> tuple[list[JsonObject], int]:
    """All messages in the plain conversion, and the number of those of the prompt."""
    items = row.response.get("output") if isinstance(row.response, dict) else None
    if isinstance(items, list):
        given = asked.get("input")
        first = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
        whole = _request({**asked, "input": [*first, *items]}, form, "the conversation")["messages"]
        # Items of an assistant at the end of the prompt can be one message with those of the reply.
        begins = len(prompt) if whole[: len(prompt)] == prompt else len(prompt) - 1
        return whole, begins
    output = row.own_output if row.own_output is not None else row.output
    if not isinstance(output, list):
        raise ConversationError("this line is not a valid rollout (it has no `response.output`)")
    if not all(isinstance(entry, dict) for entry in output):
        raise ConversationError("`output` is not a list of messages")
    return [*prompt, *_joined_turns(output)], len(prompt)


def _request(asked: JsonObject, form: ChatForm, what: str) -> JsonObject:
    try:
        return chat_request(asked, think_tags=form.think_tags)
    except ModelRequestError as error:
        raise ConversationError(f"{what} cannot be converted to chat messages ({error})") from error


def _with_objects(message: JsonObject) -> JsonObject:
    """The message with the arguments of its calls as objects."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [*map(_call_with_object, calls)]}


def _call_with_object(call: JsonObject) -> JsonObject:
    match call:
        case {"function": dict(function)} if isinstance(
            arguments := function.get("arguments"), str
        ):
            try:
                # As servers read them for a chat template, numbers out of range included.
                decoded = json.loads(arguments)
            except (ValueError, RecursionError) as error:
                raise ConversationError(f"arguments cannot be read: {error}") from error
            return {**call, "function": {**function, "arguments": decoded}}
        case _:
            return call


def _joined_turns(output: Sequence[JsonObject]) -> list[JsonObject]:
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
