"""Content of messages, reasoning and function calls: how each is written in Responses and in chat.

A message whose only part is a text becomes a plain string: the two mean the same, and every chat
template can read the string. A function call is an item in Responses and an entry of a message's
`tool_calls` in chat.
"""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import TypeAlias

from rollgym.servers.responses.shape import (
    JsonObject,
    ShapeError,
    at,
    convert_each,
    get_array,
    get_object,
    get_optional_text,
    get_text,
)


def chat_content(source: JsonObject, name: str) -> str | list[JsonObject]:
    """Content of a Responses message or tool output, as chat writes it. Raises ShapeError."""
    return _content(source, name, _TO_CHAT, "text")


def responses_content(source: JsonObject, name: str) -> str | list[JsonObject]:
    """Content of a chat message, as Responses writes it. Raises ShapeError."""
    return _content(source, name, _TO_RESPONSES, "input_text")


def _content(
    source: JsonObject, name: str, kinds: "Mapping[str, _Convert]", text_kind: str
) -> str | list[JsonObject]:
    content = source.get(name)
    if isinstance(content, str):
        return content

    def convert(part: JsonObject) -> JsonObject:
        kind = get_text(part, "type")
        if kind not in kinds:
            raise ShapeError("type", f"{kind!r} cannot be sent; use one of {', '.join(kinds)}")
        return kinds[kind](part)

    parts = convert_each(name, get_array(source, name), convert)
    if not parts:
        return ""
    if len(parts) == 1 and parts[0]["type"] == text_kind:
        return str(parts[0]["text"])
    return parts


def assistant_content(source: JsonObject) -> tuple[list[str], list[str]]:
    """Texts and refusals of an assistant's message, of either API. Raises ShapeError."""
    content = source.get("content")
    if content is None:
        return [], []
    if isinstance(content, str):
        return [content], []
    texts: list[str] = []
    refusals: list[str] = []

    def sort(part: JsonObject) -> None:
        kind = get_text(part, "type")
        if kind in {"output_text", "input_text", "text"}:
            texts.append(get_text(part, "text"))
        elif kind == "refusal":
            refusals.append(get_text(part, "refusal"))
        else:
            raise ShapeError("type", f"{kind!r} is not a part of an assistant's message")

    convert_each("content", get_array(source, "content"), sort)
    return texts, refusals


def reasoning_text(item: JsonObject) -> str:
    """The text of a reasoning item: the reasoning itself where it is given, else its summary.

    Encrypted reasoning has no text. Raises ShapeError.
    """
    for name, separator in (("content", ""), ("summary", "\n")):
        if item.get(name):
            return separator.join(
                convert_each(name, get_array(item, name), lambda part: get_text(part, "text"))
            )
    return ""


def reasoning_item(text: str) -> JsonObject:
    """The item for the reasoning of a client.

    Responses needs an id and the clients have none: the same reasoning always gets the same one.
    """
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()
    summary = [{"type": "summary_text", "text": text}]
    return {"type": "reasoning", "id": f"rs_{digest}", "summary": summary}


def chat_reasoning(message: JsonObject) -> str:
    """The reasoning of an assistant's chat message, under either name that servers give it."""
    reasoning = get_optional_text(message, "reasoning_content")
    return reasoning or get_optional_text(message, "reasoning") or ""


def _chat_text(part: JsonObject) -> JsonObject:
    return {"type": "text", "text": get_text(part, "text")}


def _chat_image(part: JsonObject) -> JsonObject:
    image = {"url": get_text(part, "image_url")}
    detail = get_optional_text(part, "detail")
    if detail is not None:
        image["detail"] = detail
    return {"type": "image_url", "image_url": image}


def _responses_text(part: JsonObject) -> JsonObject:
    return {"type": "input_text", "text": get_text(part, "text")}


def _responses_image(part: JsonObject) -> JsonObject:
    image = get_object(part, "image_url")
    detail = get_optional_text(image, "detail") or "auto"
    return {"type": "input_image", "image_url": get_text(image, "url"), "detail": detail}


_Convert: TypeAlias = Callable[[JsonObject], JsonObject]
_TO_CHAT: Mapping[str, _Convert] = {
    "input_text": _chat_text,
    "output_text": _chat_text,
    "input_image": _chat_image,
}
_TO_RESPONSES: Mapping[str, _Convert] = {"text": _responses_text, "image_url": _responses_image}


def chat_tool_call(item: JsonObject) -> JsonObject:
    """The entry of `tool_calls` for a function_call item. Raises ShapeError."""
    return {
        "id": get_text(item, "call_id"),
        "type": "function",
        "function": {"name": get_text(item, "name"), "arguments": get_text(item, "arguments")},
    }


def function_call_item(call: JsonObject) -> JsonObject:
    """The function_call item for an entry of `tool_calls`. Raises ShapeError."""
    call_id, function = get_text(call, "id"), get_object(call, "function")
    with at("function"):
        name, arguments = get_text(function, "name"), get_text(function, "arguments")
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
