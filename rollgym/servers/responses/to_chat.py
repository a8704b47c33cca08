"""Chat completions requests made from Responses create parameters, and the form that is sent.

The items become messages (`messages.py`); the parameters are translated one by one. A parameter
with another name or form in chat has a translator in the table. One that means nothing in chat is
left out. One that asks for something chat cannot do is rejected, because a request is never quietly
weakened. All others are passed on unchanged, which is how sampling parameters and a server's own
extensions reach the endpoint. A null counts as missing.

*The form* of a conversation. Servers differ in what they accept: a model server may send
`developer` as `system`, leave earlier reasoning out, or write it into the text. An export for
training has to do the same, or a model is trained on something that it was never shown. So the
model server notes in the metadata of its response what differs from the plain conversion, and an
export reads the note.

*Arguments.* vLLM decodes the arguments of earlier tool calls for the chat template, and most
versions answer 400 if they are not a JSON object. A mistake of the model would then end its
rollout. Such arguments are sent inside an object.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, TypeAlias

import msgspec

from rollgym.records import ModelRequestError
from rollgym.records.decoding import JsonDecoder
from rollgym.servers.responses.messages import chat_messages
from rollgym.servers.responses.response import arguments_problem
from rollgym.servers.responses.shape import (
    JsonObject,
    ShapeError,
    as_array,
    as_object,
    convert_each,
    get_object,
    get_text,
    shape_errors_as,
)

LOGPROBS = "message.output_text.logprobs"
"""The value of `include` with which a Responses request asks for log probabilities."""
Translate: TypeAlias = Callable[[JsonObject, Any], None]
_WITHOUT_MEANING = frozenset(
    {"input", "instructions", "max_tool_calls", "store", "stream", "stream_options", "truncation"}
)
CHAT_FORM = "chat_form"
"""The key in the metadata of a response."""
MALFORMED_ARGUMENTS = "malformed_arguments"
_REASONING = frozenset({"reasoning", "reasoning_content"})


def chat_request(params: JsonObject, *, think_tags: bool = False) -> JsonObject:
    """The body of the chat completions request for these Responses parameters.

    With `think_tags`, reasoning in the history is written into the assistant's text. Raises
    ModelRequestError that names the place where the request is malformed or chat cannot express it.
    """
    with shape_errors_as(ModelRequestError, "the request cannot be sent"):
        body: JsonObject = {"messages": chat_messages(params, think_tags=think_tags)}
        translate_parameters(params, body, _TRANSLATORS, _WITHOUT_MEANING)
        if "tools" not in body:
            _drop_tool_settings(body)
        return body


def translate_parameters(
    source: JsonObject,
    target: JsonObject,
    translators: Mapping[str, Translate],
    without_meaning: Set[str],
) -> None:
    """Write the parameters of `source` into `target`. Raises ShapeError."""
    for name, value in source.items():
        if value is None or name in without_meaning:
            continue
        translate = translators.get(name)
        if translate is None:
            target[name] = value
            continue
        try:
            translate(target, value)
        except ShapeError as error:
            raise error.within(name) from None


def _drop_tool_settings(body: JsonObject) -> None:
    """Endpoints reject settings for tools in a request without tools."""
    body.pop("parallel_tool_calls", None)
    if body.get("tool_choice") in ("auto", "none"):
        del body["tool_choice"]


def _max_output_tokens(body: JsonObject, value: Any) -> None:
    body["max_tokens"] = value


def _tools(body: JsonObject, value: Any) -> None:
    if value:
        body["tools"] = convert_each("", as_array(value), _tool)


def _tool(tool: JsonObject) -> JsonObject:
    if tool.get("type") != "function":
        raise ShapeError("type", f"must be 'function', not {tool.get('type')!r}")
    function: JsonObject = {"name": get_text(tool, "name")}
    for name in ("description", "parameters", "strict"):
        if tool.get(name) is not None:
            function[name] = tool[name]
    return {"type": "function", "function": function}


def _tool_choice(body: JsonObject, value: Any) -> None:
    if isinstance(value, dict):
        if value.get("type") != "function":
            raise ShapeError("type", f"must be 'function', not {value.get('type')!r}")
        value = {"type": "function", "function": {"name": get_text(value, "name")}}
    elif value not in ("auto", "none", "required"):
        raise ShapeError("", f"must be auto, none, required or a tool, not {value!r}")
    body["tool_choice"] = value


def _text(body: JsonObject, value: Any) -> None:
    text = as_object(value)
    if text.get("verbosity") is not None:
        body["verbosity"] = text["verbosity"]
    if text.get("format") is None:
        return
    answer_format = get_object(text, "format")
    kind = answer_format.get("type")
    if kind == "json_schema":
        schema = {name: field for name, field in answer_format.items() if name != "type"}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif kind == "json_object":
        body["response_format"] = {"type": "json_object"}
    elif kind != "text":
        raise ShapeError("format.type", f"{kind!r} is unknown")


def _reasoning(body: JsonObject, value: Any) -> None:
    effort = as_object(value).get("effort")
    if effort is not None:
        body["reasoning_effort"] = effort


def _top_logprobs(body: JsonObject, value: Any) -> None:
    if value:
        body["logprobs"] = True
        body["top_logprobs"] = value


def _include(body: JsonObject, value: Any) -> None:
    if LOGPROBS in as_array(value):
        body["logprobs"] = True


def reject(advice: str) -> Translate:
    """A translator that rejects every value that counts as true."""

    def check(_: JsonObject, value: Any) -> None:
        if value:
            raise ShapeError("", advice)

    return check


def number_of_choices(_: JsonObject, value: Any) -> None:
    if value != 1:
        raise ShapeError("", "a response holds one choice; send several requests instead")


_NO_STATE = "no state is kept between requests; send the whole conversation as `input`"

_TRANSLATORS: Mapping[str, Translate] = {
    "max_output_tokens": _max_output_tokens,
    "tools": _tools,
    "tool_choice": _tool_choice,
    "text": _text,
    "reasoning": _reasoning,
    "top_logprobs": _top_logprobs,
    "include": _include,
    "n": number_of_choices,
    "background": reject("background responses are not supported; leave it out"),
    "previous_response_id": reject(_NO_STATE),
    "conversation": reject(_NO_STATE),
    "prompt": reject(_NO_STATE),
}


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
