"""Results of tools: how a server writes them, and what the model reads of them.

A text is sent as `text/plain` and everything else as JSON; the model reads the characters of the
body. A result with images is a list of content items of the Responses API, so that the model sees
the images. Servers that other people wrote send images in several forms; all of them become
`input_image` items.
"""

import base64
import re
from typing import Any, Literal, TypeAlias

import msgspec
from pydantic import BaseModel

from rollgym.records.decoding import decode_json
from rollgym.servers.exchange import Answer
from rollgym.servers.responses import JsonObject

TEXT = "text/plain; charset=utf-8"
ToolOutput: TypeAlias = str | list[JsonObject]
"""What the model reads: a text, or content items where there are images."""
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_IMAGE_URL = re.compile(r"data:image/|https?://", re.IGNORECASE)
_MEDIA_TYPE = re.compile(r"image/[\w.+-]+")


class ToolImage:
    """An image in the result of a tool: `return ToolImage(png)`, or in a list with texts.

    `media_type` is recognised for PNG, JPEG, GIF and WebP. Raises ValueError for other data.
    """

    __slots__ = ("data", "detail", "media_type")

    def __init__(
        self,
        data: bytes,
        media_type: str | None = None,
        *,
        detail: Literal["auto", "low", "high"] = "auto",
    ) -> None:
        found = media_type or _recognise(data)
        if found is None or not _MEDIA_TYPE.fullmatch(found):
            raise ValueError(
                "the image is not PNG, JPEG, GIF or WebP; name its type, as in "
                'ToolImage(data, "image/avif")'
            )
        self.data = data
        self.media_type = found
        self.detail = detail

    def item(self) -> JsonObject:
        """The image as a content item of the Responses API."""
        return _image_item(_data_url(self.data, self.media_type), self.detail)


def result_answer(result: object) -> Answer:
    """The answer with a tool's result. Raises TypeError for a result that JSON cannot hold."""
    match result:
        case str():
            return _text_answer(result)
        case ToolImage():
            return Answer(200, msgspec.json.encode([result.item()]))
        case list() | tuple() if any(isinstance(part, ToolImage) for part in result):
            return Answer(200, msgspec.json.encode([_content_item(part) for part in result]))
        case _:
            body = encode_result(result)
            is_text = body.startswith(b'"')  # such as a date
            return _text_answer(decode_json(body)) if is_text else Answer(200, body)


def encode_result(result: object) -> bytes:
    """The JSON of a result or a row. Raises TypeError."""
    if isinstance(result, BaseModel):
        return result.model_dump_json().encode()
    return msgspec.json.encode(result, enc_hook=_encode_model)


def tool_output(answer: Answer) -> ToolOutput:
    """What the model reads of an answer: its text, or content items where it has images."""
    if answer.ok and answer.content_type.startswith("image/"):
        media_type = answer.content_type.partition(";")[0].strip()
        return [_image_item(_data_url(answer.body, media_type))]
    if answer.ok and b"image" in answer.body and answer.body.lstrip()[:1] in (b"[", b"{"):
        items = _items_with_images(answer.body)
        if items:
            return items
    return answer.text


def _text_answer(text: str) -> Answer:
    return Answer(200, text.encode("utf-8", "replace"), TEXT)


def _recognise(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES if data.startswith(start)), None)


def _data_url(data: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def _image_item(url: str, detail: object = "auto") -> JsonObject:
    known = detail if detail in ("low", "high") else "auto"
    return {"type": "input_image", "image_url": url, "detail": known}


def _text_item(text: str) -> JsonObject:
    return {"type": "input_text", "text": text}


def _content_item(part: object) -> JsonObject:
    if isinstance(part, ToolImage):
        return part.item()
    return _text_item(part if isinstance(part, str) else encode_result(part).decode())


def _encode_model(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, ToolImage):
        raise TypeError("a ToolImage must be a tool's result, or an item of a list that is")
    raise TypeError(f"a tool returned a {type(value).__name__}, which is not JSON")


def _items_with_images(body: bytes) -> list[JsonObject] | None:
    """The content items of a result with images; None for any other JSON.

    It is a list of items, one item, or an object with the list under `content`, as MCP writes it.
    """
    try:
        match decode_json(body):
            case list() as given:
                pass
            case {"content": list() as given}:
                pass
            case given:
                given = [given]
    except ValueError:
        return None
    items = [_read_item(part) for part in given]
    known = [item for item in items if item is not None]
    has_image = any(item["type"] == "input_image" for item in known)
    return known if has_image and len(known) == len(items) else None


def _read_item(part: Any) -> JsonObject | None:
    """A content item in the form of Responses, chat completions, MCP or Anthropic."""
    match part:
        case {"type": "input_text" | "output_text" | "text", "text": str() as text}:
            return _text_item(text)
        case {"type": "input_image", "image_url": str() as url}:
            pass
        case {"type": "image_url", "image_url": str() as url}:
            pass
        case {"type": "image_url", "image_url": {"url": str() as url}}:
            part = part["image_url"]
        case {"type": "image", "data": str() as data, "mimeType": str() as media_type}:
            url = f"data:{media_type};base64,{data}"
        case {
            "type": "image",
            "source": {"media_type": str() as media_type, "data": str() as data},
        }:
            url = f"data:{media_type};base64,{data}"
        case _:
            return None
    return _image_item(url, part.get("detail")) if _IMAGE_URL.match(url) else None
