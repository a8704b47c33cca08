"""What an HTTP answer of a model endpoint means.

Statuses decide, with three exceptions that servers in use make necessary: a conversation that is
too long is recognised by its wording, an exhausted quota is called a rate limit although no waiting
helps, and a redirection is not followed, because it would carry the request, and maybe the key, to
a place that nobody configured.
"""

from collections.abc import Callable, Mapping

import msgspec

from rollgym.records import (
    ModelAuthError,
    ModelContextError,
    ModelMalformedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelUnavailableError,
    Row,
    RowError,
)
from rollgym.servers.endpoints.fault import Fault
from rollgym.servers.endpoints.overflow import is_overflow
from rollgym.servers.endpoints.waits import requested_wait

MESSAGE_LIMIT = 600
_BODY_LIMIT = 1 << 16
# llama.cpp answers 500 for some conversations that are too long.
_MAY_MEAN_OVERFLOW = frozenset({400, 413, 422, 500})
# 408 and 409 are the server's own troubles; 501 and 505 are for good.
_UNAVAILABLE = frozenset({408, 409})
_FOR_GOOD = frozenset({501, 505})
_CHECK_KEY = "; check the API key of this endpoint"
_ADVICE = {
    401: _CHECK_KEY,
    403: _CHECK_KEY,
    404: "; check the base URL and the name of the model",
}
_REDIRECTED = "; a redirection is not followed: give the final address as the base URL"

Redact = Callable[[str], str]
"""Takes out of a text what nobody may see."""


class UpstreamError(msgspec.Struct, frozen=True):
    """What the body of an error says: its message, and what the server calls the error."""

    message: str
    code: str = ""
    type: str = ""

    @classmethod
    def read(cls, body: bytes, redact: Redact) -> "UpstreamError":
        """Read any of the shapes in use; a body that is none of them is its own message."""
        try:
            value: object = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return cls(_one_line(redact(body.decode("utf-8", "replace"))))
        error = value.get("error", value) if isinstance(value, dict) else value
        if not isinstance(error, dict):
            return cls(_one_line(redact(_text(error))))
        told = _text(error.get("message") or error.get("detail") or error)
        return cls(_one_line(redact(told)), _text(error.get("code")), _text(error.get("type")))


def fault_of(
    status: int, headers: Mapping[str, str], body: bytes, redact: Redact, clock: float
) -> Fault:
    """The fault that an answer without success is. `clock` is the Unix time."""
    error = UpstreamError.read(body, redact)
    said = f"answered {status}: {error.message}" if error.message else f"answered {status}"
    if status in _MAY_MEAN_OVERFLOW and is_overflow(error.message, error.code, error.type):
        return Fault(ModelContextError, said)
    if status == 429:
        wait = requested_wait(headers, error.message, clock)
        if "insufficient_quota" in {error.code, error.type}:
            said += "; waiting does not help"
            return Fault(ModelRateLimitError, said, wait, retryable=False, local=True)
        return Fault(ModelRateLimitError, said, wait)
    if status in _UNAVAILABLE or (status >= 500 and status not in _FOR_GOOD):
        return Fault(ModelUnavailableError, said, requested_wait(headers, "", clock))
    advice = _ADVICE.get(status, _REDIRECTED if status < 400 else "")
    kind = ModelAuthError if advice is _CHECK_KEY else ModelRequestError
    # What the user can mend at this endpoint need not be wrong at the others.
    return Fault(kind, said + advice, local=bool(advice))


def json_object(body: bytes, redact: Redact) -> bytes | Fault:
    """The body of a successful answer, if it is one JSON object."""
    try:
        return Row.parse(body).raw
    except (RowError, RecursionError) as error:
        said = _one_line(redact(body[:_BODY_LIMIT].decode("utf-8", "replace")))
        what = f"{said!r}, which is no JSON object ({error})" if said else "an empty body"
        return Fault(ModelMalformedError, f"answered {what}")


def _text(value: object) -> str:
    """A value as people read it. Validation errors of FastAPI lose the input they quote."""
    match value:
        case None:
            return ""
        case str():
            return value
        case list():
            return "; ".join(map(_text, value[:5]))
        case {"msg": str(complaint), **rest}:
            where = rest.get("loc")
            return (
                f"{'.'.join(map(str, where))}: {complaint}"
                if isinstance(where, list)
                else complaint
            )
        case _:
            return msgspec.json.encode(value).decode()


def _one_line(text: str) -> str:
    """Bounded, on one line, and without characters that command a terminal."""
    line = " ".join(text[: 4 * MESSAGE_LIMIT].split())
    line = "".join(character for character in line if character.isprintable())
    return line if len(line) <= MESSAGE_LIMIT else f"{line[:MESSAGE_LIMIT]}…"
