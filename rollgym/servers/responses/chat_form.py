"""The form in which a conversation is sent to a chat endpoint, and the note of it in a response.

Servers differ in what they accept: a model server may send `developer` as `system`, leave earlier
reasoning out, or write it into the text. An export for training has to do the same, or a model is
trained on something that it was never shown. So the model server notes in the metadata of its
response what differs from the plain conversion (`messages.py`), and an export reads the note.

*Arguments.* vLLM decodes the arguments of earlier tool calls for the chat template, and most
versions answer 400 if they are not a JSON object. A mistake of the model would then end its
rollout. Such arguments are sent inside an object.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from rollgym.records.decoding import JsonDecoder
from rollgym.servers.responses.response import arguments_problem
from rollgym.servers.responses.shape import JsonObject

CHAT_FORM = "chat_form"
"""The key in the metadata of a response."""
MALFORMED_ARGUMENTS = "malformed_arguments"
_REASONING = frozenset({"reasoning", "reasoning_content"})


class ChatForm(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is sent in another way than the plain conversion has it.

    - `developer_as_system`: messages of the role `developer` have the role `system`.
    - `think_tags`: reasoning stands in the text, in `<think>` tags.
    - `without_reasoning`: reasoning of earlier turns is left out.
    - `chat_template_kwargs`: the arguments for the chat template.
    """

    developer_as_system: bool = False
    think_tags: bool = False
    without_reasoning: bool = False
    chat_template_kwargs: dict[str, Any] = {}

    @classmethod
    def of(cls, response: object) -> "ChatForm":
        """The form that a response notes; the plain one where it notes none that can be read."""
        match response:
            case {"metadata": {"chat_form": str(note)}}:
                try:
                    return _NOTE.decode(note)
                except msgspec.DecodeError:
                    return PLAIN
            case _:
                return PLAIN

    def sent(self, message: Any) -> Any:
        """A chat message as it is sent; what is not a message is not changed."""
        if not isinstance(message, dict):
            return message
        role = message.get("role")
        if role == "developer" and self.developer_as_system:
            return {**message, "role": "system"}
        calls = message.get("tool_calls")
        if isinstance(calls, list) and calls:
            message = {**message, "tool_calls": [_acceptable_call(call) for call in calls]}
        if role != "assistant" or not self.without_reasoning:
            return message
        return {name: value for name, value in message.items() if name not in _REASONING}

    def noted(self, response: JsonObject, asked: Iterable[Any]) -> JsonObject:
        """The response with the note, for messages that were asked for in the plain conversion."""
        developer = self.developer_as_system and any(map(_is_of_developer, asked))
        form = msgspec.structs.replace(self, developer_as_system=developer)
        if form == PLAIN:
            return response
        metadata = response.get("metadata")
        note = {CHAT_FORM: msgspec.json.encode(form).decode()}
        kept = metadata if isinstance(metadata, dict) else {}
        return {**response, "metadata": {**kept, **note}}


PLAIN = ChatForm()
_NOTE = JsonDecoder(ChatForm)


def _is_of_developer(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "developer"


def _acceptable_call(call: Any) -> Any:
    match call:
        case {"function": {"arguments": str(arguments)}} if arguments_problem(arguments):
            return {**call, "function": {**call["function"], "arguments": _wrapped(arguments)}}
        case _:
            return call


def _wrapped(arguments: str) -> str:
    if not arguments.strip():
        return "{}"
    return msgspec.json.encode({MALFORMED_ARGUMENTS: arguments}).decode()
