"""Requests to an upstream that speaks Responses, from a chat completions body.

The mirror image of `to_chat`: one assistant message becomes an item for each thing it did, and
the parameters are translated one by one (`parameters`).
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from rollgym.records import ModelRequestError
from rollgym.servers.responses.calls import function_call_item
from rollgym.servers.responses.parameters import (
    LOGPROBS,
    Translate,
    one_answer,
    refuse,
    translate_parameters,
)
from rollgym.servers.responses.parts import assistant_content, chat_reasoning, responses_content
from rollgym.servers.responses.shape import (
    JsonObject,
    ShapeError,
    as_array,
    as_object,
    at,
    convert_each,
    get_array,
    get_object,
    get_optional_array,
    get_optional_text,
    get_text,
    shape_errors_as,
)

_WITHOUT_MEANING = frozenset({"messages", "stream_options"})


def responses_request_from_chat(body: JsonObject) -> JsonObject:
    """Responses create parameters that ask what the chat completions `body` asks.

    Raises ModelRequestError where the body is malformed or Responses cannot express it.
    """
    with shape_errors_as(ModelRequestError, "the request cannot be sent"):
        turns = convert_each("messages", get_array(body, "messages"), _items)
        params: JsonObject = {"input": [item for items in turns for item in items]}
        translate_parameters(body, params, _TRANSLATORS, _WITHOUT_MEANING)
        return params


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
    reasoning = chat_reasoning(message)
    if reasoning:
        items.append(_reasoning_item(reasoning))
    texts, refusals = assistant_content(message)
    refusal = get_optional_text(message, "refusal")
    if refusal:
        refusals.append(refusal)
    calls = get_optional_array(message, "tool_calls")
    if refusals:
        content = [{"type": "output_text", "text": text} for text in texts]
        content += [{"type": "refusal", "refusal": text} for text in refusals]
        items.append({"type": "message", "role": "assistant", "content": content})
    elif any(texts) or not (reasoning or calls):
        items.append({"role": "assistant", "content": "".join(texts)})
    items += convert_each("tool_calls", calls, function_call_item)
    return items


def _reasoning_item(reasoning: str) -> JsonObject:
    # Responses wants an id, chat has none: the same reasoning gets the same one every time.
    digest = blake2b(reasoning.encode("utf-8", "replace"), digest_size=12).hexdigest()
    summary = [{"type": "summary_text", "text": reasoning}]
    return {"type": "reasoning", "id": f"rs_{digest}", "summary": summary}


def _max_tokens(params: JsonObject, value: Any) -> None:
    params.setdefault("max_output_tokens", value)


def _max_completion_tokens(params: JsonObject, value: Any) -> None:
    params["max_output_tokens"] = value


def _tools(params: JsonObject, value: Any) -> None:
    params["tools"] = convert_each("", as_array(value), _tool)


def _tool(tool: JsonObject) -> JsonObject:
    function = get_object(tool, "function")
    with at("function"):
        name = get_text(function, "name")
    return {
        "type": "function",
        "name": name,
        "description": function.get("description"),
        "parameters": function.get("parameters"),
        "strict": bool(function.get("strict")),
    }


def _tool_choice(params: JsonObject, value: Any) -> None:
    if isinstance(value, dict):
        with at("function"):
            name = get_text(as_object(value.get("function")), "name")
        value = {"type": "function", "name": name}
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
    "n": one_answer,
    "stream": refuse("streaming is not supported; leave it out"),
    "functions": refuse("is the old way to give tools; use `tools`"),
    "function_call": refuse("is the old way to choose; use `tool_choice`"),
}
