"""What crosses the boundary of a server: a request and its answer, as bytes.

Servers call each other with these two, in one process by handing them over, between processes by
writing them as HTTP. The bodies are JSON in both cases, so neither side can tell the difference: no
object is shared, and what cannot be written as JSON fails the same way everywhere.
"""

from collections.abc import Mapping

import msgspec

JSON = "application/json"
_NONE: Mapping[str, str] = {}


class Request(msgspec.Struct, frozen=True):
    """What a caller asks. `cookies` are those it was given before."""

    method: str
    path: str
    body: bytes = b""
    cookies: Mapping[str, str] = _NONE


class Answer(msgspec.Struct, frozen=True):
    """What the server says. `cookies` are to be kept; one with an empty value is to be dropped.

    The names of `headers` are in lower case.
    """

    status: int
    body: bytes = b""
    content_type: str = JSON
    cookies: Mapping[str, str] = _NONE
    headers: Mapping[str, str] = _NONE

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class RefusedRequestError(Exception):
    """The request itself is wrong: answered with a status of the 400s and this message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def json_answer(value: object, status: int = 200) -> Answer:
    return Answer(status, msgspec.json.encode(value))


def error_answer(status: int, message: str) -> Answer:
    """An error that is no failure of the rollout: the caller decides what it means."""
    readable = message.encode("utf-8", "replace").decode()
    return json_answer({"error": {"message": readable}}, status)
