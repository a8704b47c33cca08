"""What requests ask with, and what they are answered with."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import quote

import msgspec
from aiohttp import hdrs, web

from rollgym.viewer.errors import PageError
from rollgym.viewer.index import EntryId
from rollgym.viewer.library import Library
from rollgym.viewer.shelf import Shelf

LIBRARY = web.AppKey("library", Library)
_DIGITS = 15
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")
_ENCODER = msgspec.json.Encoder()


def library_of(request: web.Request) -> Library:
    return request.app[LIBRARY]


def shelf_of(request: web.Request) -> Shelf:
    """The source that the URL names. Raises PageError."""
    return library_of(request).shelf(request.match_info["source"])


def entry_of(request: web.Request) -> EntryId:
    """The record that the URL names. Raises PageError."""
    text = request.match_info["entry"]
    try:
        return EntryId.parse(text)
    except ValueError:
        raise no_entry(text[:40]) from None


def no_entry(text: str) -> PageError:
    return PageError(
        HTTPStatus.NOT_FOUND,
        f"There is no rollout {text!r} here: it may not have been read yet, or its file was "
        "replaced.",
    )


def query_of(request: web.Request) -> Mapping[str, list[str]]:
    """Every parameter with all its values."""
    query = request.query
    return {name: query.getall(name) for name in query}


def number_of(request: web.Request, name: str, otherwise: int) -> int:
    """A parameter that counts something. Raises PageError."""
    return whole_number(name, request.query.get(name) or str(otherwise))


def whole_number(name: str, text: str) -> int:
    """Raises PageError."""
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS:
        raise PageError(
            HTTPStatus.BAD_REQUEST, f"`{name}` must be a whole number from 0 on, such as 20."
        )
    return int(text)


def text_of(request: web.Request, name: str) -> str:
    """A parameter that must be there. Raises PageError."""
    text = request.query.get(name)
    if text is None:
        raise PageError(HTTPStatus.BAD_REQUEST, f"The parameter `{name}` is missing.")
    return text


def as_json(value: object, status: int = HTTPStatus.OK) -> web.Response:
    return json_body(_ENCODER.encode(value), status)


def json_body(body: bytes, status: int = HTTPStatus.OK) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def as_download(response: web.StreamResponse, name: str) -> None:
    """Have the browser keep it under this name rather than show it."""
    plain = _NOT_IN_NAMES.sub("_", name)
    response.headers[hdrs.CONTENT_DISPOSITION] = (
        f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    )
