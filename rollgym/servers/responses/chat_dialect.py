"""Chat completions of a model that has the Responses API: its request and its answer converted.

A chat message becomes an item for each thing in it; all items of the answer become the message of
one choice. Items of tools that the endpoint ran itself have no place in chat and are left out.
Parameters are translated as in `to_chat.py`, in the other direction.
"""

from collections.abc import Mapping
from typing import Any

from rollgym.records import ModelMalformedError, ModelRequestError
from rollgym.records.tokens import TOKEN_FIELDS
from rollgym.servers.responses.messages import (
    assistant_content,
    chat_reasoning,
    chat_tool_call,
    function_call_item,
    reasoning_item,
    reasoning_text,
    responses_content,
)
from rollgym.servers.responses.shape import (
    JsonObject,
    ShapeError,
    as_array,
    as_object,
    at,
    convert_each,
    get_array,
    get_count,
    get_object,
    get_optional_array,
    get_optional_object,
    get_optional_text,
    get_seconds,
    get_text,
    shape_errors_as,
)
from rollgym.servers.responses.to_chat import (
    LOGPROBS,
    Translate,
    number_of_choices,
    reject,
    translate_parameters,
)

_WITHOUT_MEANING = frozenset({"messages", "stream", "stream_options"})
_FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


def responses_request(body: JsonObject) -> JsonObject:
    """The Responses parameters for the body of a chat completions request.

    Raises ModelRequestError where the body is malformed or Responses cannot express it.
    """
    with shape_errors_as(ModelRequestError, "the request cannot be sent"):
        messages = convert_each("messages", get_array(body, "messages"), _items)
        params: JsonObject = {"input": [item for items in messages for item in items]}
        translate_parameters(body, params, _TRANSLATORS, _WITHOUT_MEANING)
        return params


def chat_completion(response: object) -> JsonObject:
    """The chat completion for a finished Responses object. Raises ModelMalformedError."""
    with shape_errors_as(ModelMalformedError, "the response cannot be read"):
        answer = as_object(response)
        message = _ChatMessage()
        convert_each("output", get_array(answer, "output"), message.add)
        reason = get_optional_text(get_optional_object(answer, "incomplete_details"), "reason")
        finish = "tool_calls" if message.calls else "stop"
        choice: JsonObject = {
            "index": 0,
            "message": message.chat(),
            "finish_reason": finish if reason is None else _FINISH.get(reason, "length"),
            "logprobs": {"content": message.logprobs} if message.logprobs else None,
        }
        completion = {
            "id": get_optional_text(answer, "id") or "",
            "object": "chat.completion",
            "created": get_seconds(answer, "created_at"),
            "model": get_optional_text(answer, "model") or "",
            "choices": [choice],
        }
        return completion | _usage(answer)


def _items(message: JsonObject) -> list[JsonObject]:
    role = get_text(message, "role")
    if role in {"user", "system", "developer"}:
        return [{"role": role, "content": responses_content(message, "content")}]
    if role == "tool":
        call_id, output = get_text(message, "tool_call_id"), responses_content(message, "content")
        return [{"type": "function_call_output", "call_id": call_id, "output": output}]
    if role == "assistant":
        return _assistant_items(message)
    raise ShapeError("role", f"must be user, system, developer, assistant or tool, not {role!r}")


def _assistant_items(message: JsonObject) -> list[JsonObject]:
    items: list[JsonObject] = []
    if reasoning := chat_reasoning(message):
        items.append(reasoning_item(reasoning))
    texts, refusals = assistant_content(message)
    if refusal := get_optional_text(message, "refusal"):
        refusals.append(refusal)
    calls = get_optional_array(message, "tool_calls")
    if refusals:
        content = [{"type": "output_text", "text": text} for text in texts]
        content += [{"type": "refusal", "refusal": text} for text in refusals]
        items.append({"type": "message", "role": "assistant", "content": content})
    elif any(texts) or not (reasoning or calls):
        items.append({"role": "assistant", "content": "".join(texts)})
    return items + convert_each("tool_calls", calls, function_call_item)


class _ChatMessage:
    """The message that the items of one answer become."""

    def __init__(self) -> None:
        self.logprobs: list[object] = []
        self.calls: list[JsonObject] = []
        self._reasoning: list[str] = []
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._tokens: JsonObject = {}

    def add(self, item: JsonObject) -> None:
        kind = item.get("type")
        if kind == "message":
            texts, refusals = assistant_content(item)
            self._texts += texts
            self._refusals += refusals
            for part in item["content"] if isinstance(item.get("content"), list) else ():
                self.logprobs += get_optional_array(part, "logprobs")
        elif kind == "function_call":
            self.calls.append(chat_tool_call(item))
        elif kind == "reasoning":
            self._reasoning.append(reasoning_text(item))
        self._tokens |= {name: item[name] for name in TOKEN_FIELDS if name in item}

    def chat(self) -> JsonObject:
        message: JsonObject = {
            "role": "assistant",
            "content": "".join(self._texts) if self._texts else None,
            "refusal": "".join(self._refusals) if self._refusals else None,
        }
        if any(self._reasoning):
            message["reasoning_content"] = "\n".join(filter(None, self._reasoning))
        if self.calls:
            message["tool_calls"] = self.calls
        return message | self._tokens


def _usage(response: JsonObject) -> JsonObject:
    if response.get("usage") is None:
        return {}
    usage = get_object(response, "usage")
    prompt = get_optional_object(usage, "input_tokens_details")
    completed = get_optional_object(usage, "output_tokens_details")
    spent, made = get_count(usage, "input_tokens"), get_count(usage, "output_tokens")
    reasoning = get_count(completed, "reasoning_tokens")
    return {
        "usage": {
            "prompt_tokens": spent,
            "completion_tokens": made,
            "total_tokens": spent + made,
            "prompt_tokens_details": {"cached_tokens": get_count(prompt, "cached_tokens")},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        }
    }


def _max_tokens(params: JsonObject, value: Any) -> None:
    params.setdefault("max_output_tokens", value)


def _max_completion_tokens(params: JsonObject, value: Any) -> None:
    params["max_output_tokens"] = value


def _tools(params: JsonObject, value: Any) -> None:
    params["tools"] = convert_each("", as_array(value), _tool)


def _tool(tool: JsonObject) -> JsonObject:
    function = _function_of(tool)
    with at("function"):
        name = get_text(function, "name")
    return {
        "type": "function",
        "name": name,
        "description": function.get("description"),
        "parameters": function.get("parameters"),
        "strict": bool(function.get("strict")),
    }


def _function_of(tool: JsonObject) -> JsonObject:
    kind = tool.get("type", "function")
    if kind != "function":
        raise ShapeError("type", f"must be 'function', not {kind!r}")
    return get_object(tool, "function")


def _tool_choice(params: JsonObject, value: Any) -> None:
    if isinstance(value, dict):
        function = _function_of(value)
        with at("function"):
            value = {"type": "function", "name": get_text(function, "name")}
    params["tool_choice"] = value


def _response_format(params: JsonObject, value: Any) -> None:
    answer_format = as_object(value)
    if answer_format.get("type") == "json_schema":
        answer_format = {"type": "json_schema", **get_object(answer_format, "json_schema")}
    params.setdefault("text", {})["format"] = answer_format


def _verbosity(params: JsonObject, value: Any) -> None:
    params.setdefault("text", {})["verbosity"] = value


def _reasoning_effort(params: JsonObject, value: Any) -> None:
    params["reasoning"] = {"effort": value}


def _logprobs(params: JsonObject, value: Any) -> None:
    if value:
        params["include"] = [LOGPROBS]


_TRANSLATORS: Mapping[str, Translate] = {
    "max_tokens": _max_tokens,
    "max_completion_tokens": _max_completion_tokens,
    "tools": _tools,
    "tool_choice": _tool_choice,
    "response_format": _response_format,
    "verbosity": _verbosity,
    "reasoning_effort": _reasoning_effort,
    "logprobs": _logprobs,
    "n": number_of_choices,
    "functions": reject("is the old form of tools; use `tools`"),
    "function_call": reject("is the old form of a choice; use `tool_choice`"),
}
