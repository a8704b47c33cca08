"""Parts of a message's content: how each kind is written in Responses and in chat.

A message whose only part is a text travels as a plain string: the two mean the same, and every
chat template can read the string.
"""

from collections.abc import Callable, Mapping

from rollgym.servers.responses.shape import (
    JsonObject,
    ShapeError,
    convert_each,
    get_array,
    get_object,
    get_optional_text,
    get_text,
)

Convert = Callable[[JsonObject], JsonObject]


def chat_content(source: JsonObject, name: str) -> str | list[JsonObject]:
    """Content of a Responses message or tool output, as chat writes it."""
    return _content(source, name, _TO_CHAT, "text")


def responses_content(source: JsonObject, name: str) -> str | list[JsonObject]:
    """Content of a chat message, as Responses writes it."""
    return _content(source, name, _TO_RESPONSES, "input_text")


def assistant_content(source: JsonObject, name: str = "content") -> tuple[list[str], list[str]]:
    """Texts and refusals of an assistant's message, in either way of writing it."""
    content = source.get(name)
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

    convert_each(name, get_array(source, name), sort)
    return texts, refusals


def reasoning_text(item: JsonObject) -> str:
    """What a reasoning item says: the reasoning itself where it is given, else its summary.

    Encrypted reasoning says nothing that could be passed on.
    """
    for name, separator in (("content", ""), ("summary", "\n")):
        if item.get(name):
            return separator.join(
                convert_each(name, get_array(item, name), lambda part: get_text(part, "text"))
            )
    return ""


def chat_reasoning(message: JsonObject) -> str:
    """What an assistant's chat message says it reasoned, under either name servers give it."""
    reasoning = get_optional_text(message, "reasoning_content")
    return reasoning or get_optional_text(message, "reasoning") or ""


def _content(
    source: JsonObject, name: str, kinds: Mapping[str, Convert], text_kind: str
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
    return {
        "type": "input_image",
        "image_url": get_text(image, "url"),
        "detail": get_optional_text(image, "detail") or "auto",
    }


_TO_CHAT: Mapping[str, Convert] = {
    "input_text": _chat_text,
    "output_text": _chat_text,
    "input_image": _chat_image,
}
_TO_RESPONSES: Mapping[str, Convert] = {"text": _responses_text, "image_url": _responses_image}
