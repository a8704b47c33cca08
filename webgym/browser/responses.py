"""Reading the answers of a browser server, for the client and for its worker processes.

An answer is decoded into its type, or raised as the error that it reports. An unreadable one (the
page of a proxy, half a body, another program) does not say what the server did: that is a
ServerUnreachableError.

This module imports little, because every worker process of an isolated client imports it.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec

from rollgym.records.decoding import JsonDecoder
from rollgym.records.failure import read_seconds, shorten
from webgym.browser.contract.answers import Picture
from webgym.browser.contract.errors import (
    WIRE_ERRORS,
    ErrorBody,
    ServerUnreachableError,
    error_named,
)

SLACK = 5.0
"""How much longer the client waits than the server."""
REPEATS = (0.1, 0.3, 1.0)
"""The pauses before a repeatable request is sent again."""
CONNECT_SECONDS = 10.0
LONGEST_RETRY_AFTER = 3600.0
LARGEST_ANSWER = 2**26
EXCERPT = 300

T = TypeVar("T")
_SIGNATURES = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff", "image/webp": b"RIFF"}
_ERROR = JsonDecoder(ErrorBody)
_KNOWN_TYPES = frozenset(kind.type for kind in WIRE_ERRORS)


class RawResponse(NamedTuple):
    """An HTTP response that is not decoded yet."""

    status: int
    media_type: str
    retry_after: str
    body: bytes


Reader = Callable[[RawResponse], T]
"""Raises the error that the answer reports, or ServerUnreachableError if it is unreadable."""


def json_reader(wanted: type[T]) -> Reader[T]:
    """Reads JSON as this type."""
    decoder = JsonDecoder(wanted)

    def read(answer: RawResponse) -> T:
        if answer.status != 200:
            raise _reported(answer)
        try:
            return decoder.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _unreadable(answer, str(error)) from error

    return read


def picture_reader(media_type: str) -> Reader[Picture]:
    """Reads a picture of this type."""

    def read(answer: RawResponse) -> Picture:
        if answer.status != 200:
            raise _reported(answer)
        has_signature = answer.body.startswith(_SIGNATURES[media_type])
        if answer.media_type != media_type or not has_signature:
            raise _unreadable(answer, f"it is not {media_type}")
        return Picture(media_type, answer.body)

    return read


def _reported(answer: RawResponse) -> Exception:
    retry_after = read_seconds(answer.retry_after, LONGEST_RETRY_AFTER)
    try:
        detail = _ERROR.decode(answer.body).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _unreadable(answer, "it is not the answer of a browser server", retry_after)
    if answer.status >= 500 and detail.type not in _KNOWN_TYPES:
        return _unreadable(answer, "the server failed", retry_after)
    return error_named(detail.type, detail.message, retry_after)


def _unreadable(
    answer: RawResponse, why: str, retry_after: float | None = None
) -> ServerUnreachableError:
    size = len(answer.body)
    excerpt = shorten(answer.body[: 4 * EXCERPT].decode("utf-8", "replace"), EXCERPT)
    return ServerUnreachableError(
        f"{why}: HTTP {answer.status}, {size} bytes of {answer.media_type}: {excerpt!r}",
        retry_after=retry_after,
    )
