"""Anthropic Messages of a model that has the Responses API: its request and its answer converted.

A message becomes an item for each thing in it: neighbouring texts and images of a user are one
message, and each tool result is an output. Parameters are translated as in `chat_dialect.py`;
unknown ones are passed on. What a model server cannot be asked for is either rejected, or named by
`unsent_parameters`, so that nothing that changes sampling is dropped silently.

*Arguments of calls* are an object in Messages and the text that the model wrote in Responses. A
request repeats the object, so the text of an earlier answer is looked up by the id of its call. The
next prompt then has the same text, and with it the same tokens. Arguments that are not an object
are sent inside one.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from rollgym.records import ModelMalformedError, ModelRequestError
from rollgym.records.decoding import JsonDecoder
from rollgym.servers.responses.messages import assistant_content, reasoning_item, reasoning_text
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
    get_optional_object,
    get_optional_text,
    get_text,
    shape_errors_as,
)
from rollgym.servers.responses.to_chat import (
    MALFORMED_ARGUMENTS,
    Translate,
    reject,
    translate_parameters,
)

_NONE: Mapping[str, str] = {}
_OBJECT = JsonDecoder(dict[str, Any])
_UNSENT = ("thinking", "context_management")
_WITHOUT_MEANING = frozenset(
    (
        *("messages", "system", "stream", "betas", "cache_control", "service_tier"),
        *("inference_geo", "user_profile_id", *_UNSENT),
    )
)
_SIGNATURE = "cm9sbGd5bQ=="
"""Of reasoning; clients send it back as reasoning only where it has some."""
_STOPS = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


def anthropic_request(body: JsonObject, arguments: Mapping[str, str] = _NONE) -> JsonObject:
    """The Responses parameters for the body of a Messages request.

    `arguments` are the texts of the arguments of earlier calls, by their ids. Raises
    ModelRequestError where the body is malformed or Responses cannot express it.
    """
    with shape_errors_as(ModelRequestError, "the request cannot be sent"):
        turns = convert_each(
            "messages", get_array(body, "messages"), lambda message: _items(message, arguments)
        )
        params: JsonObject = {"input": [item for items in turns for item in items]}
        if body.get("system"):
            params["instructions"] = _text_of(body, "system", "\n\n")
        translate_parameters(body, params, _TRANSLATORS, _WITHOUT_MEANING)
        return params


def unsent_parameters(body: JsonObject) -> list[str]:
    """The names of the parameters that a model server cannot be asked for."""
    given = (name for name in _UNSENT if body.get(name) is not None)
    return [name for name in given if body[name] != {"type": "disabled"}]


def anthropic_message(response: object) -> JsonObject:
    """The Message for a finished Responses object. Raises ModelMalformedError."""
    with shape_errors_as(ModelMalformedError, "the response cannot be read"):
        answer = as_object(response)
        blocks = convert_each("output", get_array(answer, "output"), _blocks)
        content = [block for found in blocks for block in found]
        reason = get_optional_text(get_optional_object(answer, "incomplete_details"), "reason")
        has_calls = any(block["type"] == "tool_use" for block in content)
        refused = any(block.pop("refused", False) for block in content)
        stop = "tool_use" if has_calls else "refusal" if refused else "end_turn"
        identity = get_optional_text(answer, "id") or ""
        return {
            "id": f"msg_{identity.removeprefix('resp_')}",
            "type": "message",
            "role": "assistant",
            "model": get_optional_text(answer, "model") or "",
            "content": content,
            "stop_reason": stop if reason is None else _STOPS.get(reason, "max_tokens"),
            "stop_sequence": None,
            "usage": _usage(answer),
        }


def _items(message: JsonObject, arguments: Mapping[str, str]) -> list[JsonObject]:
    role = get_text(message, "role")
    if role not in ("user", "assistant", "system"):
        raise ShapeError("role", f"must be user, assistant or system, not {role!r}")
    content = message.get("content")
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    items: list[JsonObject] = []
    turn = _Turn(role, items, arguments)
    convert_each("content", get_array(message, "content"), turn.add)
    turn.flush()
    return items


class _Turn:
    """The items of one message; texts and images that follow each other are one item."""

    def __init__(self, role: str, items: list[JsonObject], arguments: Mapping[str, str]) -> None:
        self._role = role
        self._items = items
        self._arguments = arguments
        self._parts: list[JsonObject] = []

    def add(self, block: JsonObject) -> None:
        kind, of_model = get_text(block, "type"), self._role == "assistant"
        if kind == "text" or (kind == "image" and not of_model):
            self._parts.append(_part(block))
            return
        self.flush()
        if kind == "tool_result" and self._role == "user":
            call_id = get_text(block, "tool_use_id")
            output = "" if block.get("content") is None else _content(block, "content")
            item = {"type": "function_call_output", "call_id": call_id, "output": output}
            self._items.append(item)
        elif kind == "tool_use" and of_model:
            self._items.append(_function_call(block, self._arguments))
        elif kind == "thinking" and of_model:
            self._items.append(reasoning_item(get_text(block, "thinking")))
        elif kind != "redacted_thinking":  # that has no text
            raise ShapeError("type", f"{kind!r} cannot be sent in a message of role {self._role}")

    def flush(self) -> None:
        if not self._parts:
            return
        parts, self._parts = self._parts, []
        if self._role == "assistant":
            content: Any = "".join([part["text"] for part in parts])
        else:
            content = _plain(parts)
        self._items.append({"role": self._role, "content": content})


def _part(block: JsonObject) -> JsonObject:
    kind = get_text(block, "type")
    if kind == "text":
        return {"type": "input_text", "text": get_text(block, "text")}
    if kind != "image":
        raise ShapeError("type", f"{kind!r} cannot be sent; use text or image")
    source = get_object(block, "source")
    with at("source"):
        if source.get("type") == "url":
            url = get_text(source, "url")
        elif source.get("type") == "base64":
            url = f"data:{get_text(source, 'media_type')};base64,{get_text(source, 'data')}"
        else:
            raise ShapeError("type", f"must be base64 or url, not {source.get('type')!r}")
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def _content(source: JsonObject, name: str) -> str | list[JsonObject]:
    content = source.get(name)
    if isinstance(content, str):
        return content
    return _plain(convert_each(name, get_array(source, name), _part))


def _plain(parts: list[JsonObject]) -> str | list[JsonObject]:
    """A text alone is a plain string: the two mean the same."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0]["type"] == "input_text":
        return str(parts[0]["text"])
    return parts


def _text_of(source: JsonObject, name: str, separator: str) -> str:
    content = source.get(name)
    if isinstance(content, str):
        return content
    texts = convert_each(name, get_array(source, name), lambda block: get_text(block, "text"))
    return separator.join(texts)


def _function_call(block: JsonObject, arguments: Mapping[str, str]) -> JsonObject:
    call_id, given = get_text(block, "id"), get_object(block, "input")
    written = arguments.get(call_id)
    if written is None or _arguments_object(written) != given:
        written = msgspec.json.encode(given).decode()
    name = get_text(block, "name")
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": written}


def _arguments_object(text: str) -> JsonObject:
    try:
        return _OBJECT.decode(text or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {MALFORMED_ARGUMENTS: text}


def _blocks(item: JsonObject) -> list[JsonObject]:
    """The content blocks of an output item. Those of a refusal are marked as `refused`."""
    kind = item.get("type")
    if kind == "message":
        texts, refusals = assistant_content(item)
        said: list[JsonObject] = [{"type": "text", "text": text} for text in texts if text]
        return said + [{"type": "text", "text": text, "refused": True} for text in refusals]
    if kind == "function_call":
        return [
            {
                "type": "tool_use",
                "id": get_text(item, "call_id"),
                "name": get_text(item, "name"),
                "input": _arguments_object(get_text(item, "arguments")),
            }
        ]
    text = reasoning_text(item) if kind == "reasoning" else ""
    return [{"type": "thinking", "thinking": text, "signature": _SIGNATURE}] if text else []


def _usage(response: JsonObject) -> JsonObject:
    usage = get_optional_object(response, "usage")
    cached = get_count(get_optional_object(usage, "input_tokens_details"), "cached_tokens")
    return {
        "input_tokens": max(0, get_count(usage, "input_tokens") - cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": get_count(usage, "output_tokens"),
    }


def _renamed(name: str) -> Translate:
    def rename(params: JsonObject, value: Any) -> None:
        params[name] = value

    return rename


def _metadata(params: JsonObject, value: Any) -> None:
    user = get_optional_text(as_object(value), "user_id")
    if user is not None:
        params["user"] = user


def _tools(params: JsonObject, value: Any) -> None:
    params["tools"] = convert_each("", as_array(value), _tool)


def _tool(tool: JsonObject) -> JsonObject:
    if tool.get("type") not in (None, "custom"):
        raise ShapeError(
            "type", f"{tool['type']!r} is a tool of Anthropic's servers; use tools of your own"
        )
    return {
        "type": "function",
        "name": get_text(tool, "name"),
        "description": tool.get("description"),
        "parameters": get_object(tool, "input_schema"),
        "strict": bool(tool.get("strict")),
    }


def _tool_choice(params: JsonObject, value: Any) -> None:
    choice = as_object(value)
    kind = get_text(choice, "type")
    if kind == "tool":
        params["tool_choice"] = {"type": "function", "name": get_text(choice, "name")}
    elif kind in ("auto", "any", "none"):
        params["tool_choice"] = "required" if kind == "any" else kind
    else:
        raise ShapeError("type", f"must be auto, any, none or tool, not {kind!r}")
    if choice.get("disable_parallel_tool_use"):
        params["parallel_tool_calls"] = False


def _output_config(params: JsonObject, value: Any) -> None:
    config = as_object(value)
    if config.get("effort") is not None:
        params["reasoning"] = {"effort": config["effort"]}
    if config.get("format") is not None:
        params["text"] = {"format": {"name": "answer", **get_object(config, "format")}}


_TRANSLATORS: Mapping[str, Translate] = {
    "max_tokens": _renamed("max_output_tokens"),
    "stop_sequences": _renamed("stop"),
    "metadata": _metadata,
    "tools": _tools,
    "tool_choice": _tool_choice,
    "output_config": _output_config,
    "mcp_servers": reject("the gateway connects to no MCP servers; use tools of your own"),
    "container": reject("there are no containers; leave it out"),
}
