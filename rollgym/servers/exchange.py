"""Requests and answers between servers, as bytes; typed failures in answers; cookies.

In one process the objects are handed over, between processes they are written as HTTP. The bodies
are JSON in both cases, so neither side can tell the difference: no object is shared, and values
that are not JSON fail the same way everywhere. A body that is a row is handed over as one: it
cannot be changed, and its fields need not be separated again.

*Failures.* A `RolloutError` that leaves a server becomes an answer with a header that names its
kind and a body that holds the whole failure. The client raises it again, so that a failure is the
same on both sides of a boundary. An answer without the header is not a failure of the rollout until
its caller decides so.

*Streams.* The body of an answer may arrive in parts. Code that takes such an answer reads its parts
and closes them, also when it ends early; that stops the work behind them.

*Cookies* have names and values and can be deleted. A jar belongs to one rollout and one server, so
paths and domains are not kept.
"""

from collections.abc import Iterable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

import msgspec

from rollgym.records import Failure, FailureKind, RolloutError, Row, UpstreamAnswer, error_of
from rollgym.records.decoding import JsonDecoder

JSON = "application/json"
_NONE: Mapping[str, str] = {}
FAILURE_HEADER = "x-rollgym-failure"
_STATUS = {
    FailureKind.MODEL_RATE_LIMIT: 429,
    FailureKind.MODEL_UNAVAILABLE: 503,
    FailureKind.MODEL_MALFORMED: 502,
    FailureKind.MODEL_REQUEST: 400,
    FailureKind.MODEL_CONTEXT: 400,
    FailureKind.MODEL_AUTH: 401,
    FailureKind.TOOL: 502,
    FailureKind.ENVIRONMENT: 503,
    FailureKind.BROWSER: 502,
    FailureKind.BROWSER_UNAVAILABLE: 503,
    FailureKind.TASK: 422,
    FailureKind.TIMEOUT: 504,
}
_UPSTREAM_STATUS = frozenset(
    {
        FailureKind.MODEL_AUTH,
        FailureKind.MODEL_CONTEXT,
        FailureKind.MODEL_RATE_LIMIT,
        FailureKind.MODEL_REQUEST,
    }
)
"""Kinds that keep the status of the model endpoint's answer, where that is an error of the 400s."""


class Request(msgspec.Struct, frozen=True):
    """A request to a server. `cookies` are those of its earlier answers.

    `given` is the body as a row, from a caller in the same process that has it.
    """

    method: str
    path: str
    body: bytes = b""
    cookies: Mapping[str, str] = _NONE
    given: Row | None = None

    @property
    def row(self) -> Row:
        """The body as a row. Raises RowError."""
        return self.given or Row.parse(self.body)


class Parts(Protocol):
    """The bytes of a body as they arrive. `aclose` it, also after its end or an error."""

    def __aiter__(self) -> "Parts": ...

    async def __anext__(self) -> bytes: ...

    async def aclose(self) -> None: ...


class Answer(msgspec.Struct, frozen=True):
    """The answer of a server. `cookies` are to be kept; an empty value deletes a cookie.

    The names of `headers` are in lower case. With `parts` the body is empty and arrives in them.
    `given` is the body as a row, from a server in the same process that has it.
    """

    status: int
    body: bytes = b""
    content_type: str = JSON
    cookies: Mapping[str, str] = _NONE
    headers: Mapping[str, str] = _NONE
    parts: Parts | None = None
    given: Row | None = None

    @property
    def row(self) -> Row:
        """The body as a row. Raises RowError."""
        return self.given or Row.parse(self.body)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class RefusedRequestError(Exception):
    """The request is wrong; the answer has this status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def complete(answer: Answer) -> Answer:
    """The answer with the bytes of all its parts as its body."""
    if answer.parts is None:
        return answer
    async with aclosing(answer.parts) as parts:
        body = b"".join([part async for part in parts])
    return msgspec.structs.replace(answer, body=body, parts=None)


def json_answer(value: object, status: int = 200) -> Answer:
    return Answer(status, msgspec.json.encode(value))


def error_answer(status: int, message: str) -> Answer:
    """An error that is not a failure of the rollout: the caller decides what it means."""
    readable = message.encode("utf-8", "replace").decode()
    return json_answer({"error": {"message": readable}}, status)


class _FailureBody(msgspec.Struct):
    error: Failure
    partial: msgspec.Raw = msgspec.Raw(b"null")
    upstream: UpstreamAnswer | None = None


_FAILURE_BODY = JsonDecoder(_FailureBody)


def failure_answer(error: BaseException) -> Answer:
    """The answer of a server in which this error was raised.

    Its body is also that of an error of the OpenAI API, with the names of the model endpoint.
    """
    failure = Failure.of(error)
    upstream = getattr(error, "upstream", None)
    names = upstream if isinstance(upstream, UpstreamAnswer) else UpstreamAnswer(0)
    body: dict[str, object] = {
        "error": {
            "message": failure.detail,
            "type": names.type or failure.kind,
            "param": names.param,
            "code": names.code,
            **msgspec.to_builtins(failure),
        }
    }
    if names.status:
        body["upstream"] = names
    partial = getattr(error, "partial", None)
    if isinstance(partial, bytes):
        body["partial"] = msgspec.Raw(partial)
    headers = {FAILURE_HEADER: str(failure.kind)}
    if failure.retry_after is not None:
        headers["retry-after"] = f"{failure.retry_after:.3f}".rstrip("0").rstrip(".")
    status = _STATUS.get(failure.kind, 500)
    if failure.kind in _UPSTREAM_STATUS and 400 <= names.status < 500:
        status = names.status
    return Answer(status, msgspec.json.encode(body), headers=headers)


def failure_in(answer: Answer) -> RolloutError | None:
    """The failure in an answer, as the error to raise; None where there is none."""
    if FAILURE_HEADER not in answer.headers:
        return None
    try:
        body = _FAILURE_BODY.decode(answer.body)
    except ValueError:
        return None
    error = error_of(body.error)
    error.upstream = body.upstream
    if bytes(body.partial) != b"null":
        error.partial = bytes(body.partial)
    return error


def parse_cookies(header: str) -> dict[str, str]:
    """The cookies of a `Cookie` header."""
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return {name: value for name, separator, value in pairs if name and separator}


def format_cookies(cookies: Mapping[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in cookies.items())


def parse_set_cookies(headers: Iterable[str]) -> dict[str, str]:
    """The cookies of `Set-Cookie` headers; a deleted cookie has an empty value."""
    cookies = {}
    for header in headers:
        pair, _, attributes = header.partition(";")
        name, separator, value = pair.strip().partition("=")
        if name and separator:
            cookies[name] = "" if _is_deleted(attributes) else value
    return cookies


def format_set_cookie(name: str, value: str) -> str:
    lifetime = "" if value else " Max-Age=0;"
    return f"{name}={value}; Path=/;{lifetime} HttpOnly; SameSite=lax"


def _is_deleted(attributes: str) -> bool:
    """Whether the cookie has expired. Unreadable attributes are ignored, as browsers do."""
    pairs = (attribute.partition("=") for attribute in attributes.split(";"))
    values = {name.strip().lower(): value.strip() for name, _, value in pairs}
    age = values.get("max-age", "")
    if age.removeprefix("-").isdecimal():
        return age.startswith("-") or not age.strip("0")
    try:
        expires = parsedate_to_datetime(values["expires"])
    except (KeyError, ValueError, OverflowError):
        return False
    return expires.replace(tzinfo=expires.tzinfo or UTC) <= datetime.now(UTC)


class CookieJar:
    """The cookies of one rollout with one server."""

    __slots__ = ("cookies",)

    def __init__(self, cookies: Mapping[str, str] | None = None) -> None:
        self.cookies: dict[str, str] = dict(cookies) if cookies else {}

    def keep(self, given: Mapping[str, str]) -> None:
        for name, value in given.items():
            if value:
                self.cookies[name] = value
            else:
                self.cookies.pop(name, None)
