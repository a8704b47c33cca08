"""Reading a browser server's answers, however they came: for the client and for worker processes.

An answer is read as the type that is due, or raised as the error that it reports. One that cannot
be read (a proxy's page, half a body, another program) says nothing about what the server did: that
is a ServerUnreachableError.

It imports little, because every worker process of an isolated client pays for it.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec

from rollgym.records.failure import shorten
from webgym.browser.contract.answers import Picture
from webgym.browser.contract.errors import (
    WIRE_ERRORS,
    ErrorBody,
    ServerUnreachableError,
    error_named,
)

SLACK = 5.0
"""How much longer than the server we wait for its answer."""
REPEATS = (0.1, 0.3, 1.0)
"""The pauses before a request that may be made twice is made again."""
CONNECT_SECONDS = 10.0
LONGEST_RETRY_AFTER = 3600.0
LARGEST_ANSWER = 2**26
EXCERPT = 300

T = TypeVar("T")
_SIGNATURES = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff", "image/webp": b"RIFF"}
_ERROR = msgspec.json.Decoder(ErrorBody)
_KNOWN_TYPES = frozenset(kind.type for kind in WIRE_ERRORS)


class Answer(NamedTuple):
    """What came back, unread."""

    status: int
    media_type: str
    retry_after: str
    body: bytes


Reader = Callable[[Answer], T]
"""Raises the error that the answer reports, or ServerUnreachableError where it makes no sense."""


def reader(wanted: type[T]) -> Reader[T]:
    """Reads JSON as this type."""
    decoder = msgspec.json.Decoder(wanted)

    def read(answer: Answer) -> T:
        if answer.status != 200:
            raise _reported(answer)
        try:
            return decoder.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _unreadable(answer, str(error)) from error

    return read


def picture_reader(media_type: str) -> Reader[Picture]:
    """Reads a picture of this type."""

    def read(answer: Answer) -> Picture:
        if answer.status != 200:
            raise _reported(answer)
        begins_well = answer.body.startswith(_SIGNATURES[media_type])
        if answer.media_type != media_type or not begins_well:
            raise _unreadable(answer, f"it is no {media_type}")
        return Picture(media_type, answer.body)

    return read


def _reported(answer: Answer) -> Exception:
    retry_after = _seconds(answer.retry_after)
    try:
        fault = _ERROR.decode(answer.body).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _unreadable(answer, "it is no answer of a browser server", retry_after)
    if answer.status >= 500 and fault.type not in _KNOWN_TYPES:
        return _unreadable(answer, "the server broke", retry_after)
    return error_named(fault.type, fault.message, retry_after)


def _unreadable(
    answer: Answer, why: str, retry_after: float | None = None
) -> ServerUnreachableError:
    size = len(answer.body)
    excerpt = shorten(answer.body[: 4 * EXCERPT].decode("utf-8", "replace"), EXCERPT)
    return ServerUnreachableError(
        f"{why}: HTTP {answer.status}, {size} bytes of {answer.media_type}: {excerpt!r}",
        retry_after=retry_after,
    )


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds <= LONGEST_RETRY_AFTER else None
