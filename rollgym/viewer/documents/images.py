"""Pictures of a record: which are shown, from where, and how large they are.

Four formats are shown, none of which can contain scripts. The first bytes tell the format, not the
name or the media type. SVG is never shown, because it can contain scripts. A picture on another
server is not loaded, because that would tell the server that it was viewed.
"""

import binascii
import re
from base64 import b64decode
from pathlib import PurePosixPath
from typing import Literal, TypeAlias

import msgspec

from rollgym.viewer.documents.texts import short
from rollgym.viewer.values import start_of, text_of
from rollgym.viewer.view import PictureData, PictureView

MediaType: TypeAlias = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]

_DATA_URL = re.compile(rb"data:image/(?:png|jpe?g|gif|webp);base64,", re.IGNORECASE)
_SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".gif", ".webp"))
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_HEAD = 32_768
"""Characters of base64 from which the size of a picture is read."""
_NOTE_LIMIT = 500


def media_type_of(data: bytes) -> MediaType | None:
    """The format of a picture by its first bytes; None for any other."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def picture_of(url: str) -> PictureData:
    """The picture in a data: URL. Raises ValueError if it is not a picture that is shown."""
    encoded = url.encode("ascii", "replace")
    found = _DATA_URL.match(encoded)
    if found is None:
        raise ValueError("not a data: URL of a PNG, JPEG, GIF or WebP picture")
    data = b64decode(memoryview(encoded)[found.end() :], validate=True)
    media_type = media_type_of(data)
    if media_type is None:
        raise ValueError("the bytes are not a PNG, JPEG, GIF or WebP picture")
    return PictureData(media_type, data)


def image_at(url: msgspec.Raw, path: str, *, has_folder: bool) -> PictureView:
    """The picture for a URL, which is the string at `path` in the record.

    `has_folder` says whether the source has a folder for relative paths.
    """
    head = start_of(url, _HEAD)[1:].replace(b"\\/", b"/")
    found = _DATA_URL.match(head)
    if found is not None:
        width, height = _size_in(head[found.end() :].rstrip(b'"'))
        return PictureView(path=path, width=width, height=height)
    if head[:5].lower() == b"data:":
        kind = head[5:60].split(b",")[0].split(b";")[0].decode("ascii", "replace")
        return PictureView(note=f"data of a type that is not shown: {kind}")
    address = text_of(url) or ""
    file = _file(address) if has_folder else ""
    return PictureView(file=file) if file else PictureView(note=short(address, _NOTE_LIMIT))


def _file(address: str) -> str:
    """A path below the folder of pictures; "" for any other address."""
    if _SCHEME.match(address) or any(character in address for character in "\\\0?#"):
        return ""
    path = PurePosixPath(address)
    if path.is_absolute() or ".." in path.parts or path.suffix.lower() not in _SUFFIXES:
        return ""
    return str(path)


def _size_in(encoded: bytes) -> tuple[int | None, int | None]:
    try:
        head = b64decode(encoded[: len(encoded) // 4 * 4], validate=True)
    except binascii.Error:
        return None, None
    return dimensions(head) or (None, None)


def dimensions(head: bytes) -> tuple[int, int] | None:
    """Width and height from the first bytes of a picture; None where they are missing."""
    match media_type_of(head):
        case "image/png":
            width, height = _big(head[16:20]), _big(head[20:24])
        case "image/gif":
            width, height = _little(head[6:8]), _little(head[8:10])
        case "image/webp":
            width, height = _webp(head)
        case "image/jpeg":
            width, height = _jpeg(head)
        case _:
            return None
    return (width, height) if width and height else None


def _webp(head: bytes) -> tuple[int, int]:
    match head[12:16]:
        case b"VP8X":
            return _little(head[24:27]) + 1, _little(head[27:30]) + 1
        case b"VP8L":
            bits = _little(head[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF
        case _:
            return 0, 0


def _jpeg(head: bytes) -> tuple[int, int]:
    """From the frame header, which may follow any number of other segments."""
    position = 2
    while position + 9 <= len(head) and head[position] == 0xFF:
        marker = head[position + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _big(head[position + 7 : position + 9]), _big(head[position + 5 : position + 7])
        position += 2 + _big(head[position + 2 : position + 4])
    return 0, 0


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
