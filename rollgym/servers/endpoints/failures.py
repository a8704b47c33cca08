"""Failed tries: how the HTTP response of a model endpoint becomes a typed failure, and retries.

*Failures.* Statuses decide, with four exceptions that the servers in use make necessary: a
conversation that is too long is recognised by its wording, so is a request that llama.cpp never
answers, with its status 500, an exhausted quota is reported as a rate limit although waiting does
not help, and a redirection is not followed, because it would send the request, and maybe the key,
to an address that is not configured.

*Retries.* Whether a call tries again follows from its failures alone. A rejection because of a rate
limit counts half in the budget. It cost the endpoint nothing, while giving up costs the whole
rollout around the call. Where an endpoint is saturated and its queue is full, many calls are
rejected several times in a row.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TypeVar

import msgspec

from rollgym.engine import Backoff
from rollgym.records import (
    TRAITS,
    DeadlineError,
    ModelAuthError,
    ModelContextError,
    ModelMalformedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelUnavailableError,
    RolloutError,
    Row,
    RowError,
    UpstreamAnswer,
)
from rollgym.records.decoding import decode_json
from rollgym.records.failure import read_seconds
from rollgym.servers.endpoints.settings import EndpointPoolSettings

MESSAGE_LIMIT = 600
_BODY_LIMIT = 1 << 16
_NAME_LIMIT = 200
# llama.cpp answers 500 for some conversations that are too long.
_MAY_MEAN_OVERFLOW = frozenset({400, 413, 422, 500})
# 408 and 409 are failures of the server; 501 and 505 do not go away.
_UNAVAILABLE = frozenset({408, 409})
_PERMANENT = frozenset({501, 505})
_CHECK_KEY = "; check the API key of this endpoint"
_ADVICE = {
    401: _CHECK_KEY,
    403: _CHECK_KEY,
    404: "; check the base URL and the name of the model",
}
_REDIRECTED = "; redirections are not followed: give the final address as the base URL"

# Both a conversation that is too long and a wrong request get a status of the 400s. OpenAI marks
# the first with a code and llama.cpp with a type; all others are recognised by the wording, which
# changes with the version. Only the message is searched, never the whole body: some servers repeat
# the conversation in their errors, and the conversation may be about context windows.
_OVERFLOW_NAMES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_OVERFLOW_WORDINGS = re.compile(
    "|".join(
        [
            # OpenAI, vLLM, SGLang, Mistral and the proxies in front of them.
            r"maximum context length",
            r"context[_ ]length[_ ]exceeded",
            r"exceeds? (?:the |your )?(?:model's )?context (?:window|limit|length)",
            r"model's context length is only",
            # vLLM: prompts that are checked after tokenising, and no tokens left for the answer.
            r"longer than the maximum model length",
            r"too long to fit into the model",
            r"prompt \(\d+ tokens\) is too long",
            r"max_tokens must be at least 1, got -",
            # SGLang.
            r"longer than the model's context length",
            r"input length .{0,40}exceeds the maximum allowed (?:input )?length",
            # llama.cpp and its Python server.
            r"exceeds? the available context size",
            r"context size has been exceeded",
            # Text Generation Inference, Anthropic, Gemini, xAI.
            r"`inputs` (?:tokens \+ `max_new_tokens` must be <=|must have less than)",
            r"(?:prompt|input) is too long",
            r"input token count .{0,40}exceeds the maximum",
            r"maximum prompt length is \d+",
        ]
    ),
    re.IGNORECASE,
)
# What llama.cpp rejects with 500: pictures and sounds without their encoder, and malformed tools.
_WRONG_FOR_LLAMA_CPP = re.compile(r"(?:image|audio) input is not supported|Failed to parse tools:")
_PHRASE = re.compile(r"try again in ((?:\d+(?:\.\d+)?(?:ms|[smh]))+)", re.IGNORECASE)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smh])", re.IGNORECASE)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
Redact = Callable[[str], str]
"""Replaces credentials in a text."""
T = TypeVar("T")
MALFORMED_RETRIES = 1
WEIGHT_OF_REJECTION = 0.5
"""What a failure with a rate limit counts in the budget of retries."""


class FailedTry(msgspec.Struct, frozen=True):
    """The failure of one request to one endpoint, as a value: most are fixed by another try.

    `reason` completes a sentence that starts with the request: "answered 500: …". `retryable`
    overrides the default of the error's kind. `local` says that the failure concerns this endpoint
    rather than the request, so another endpoint may accept it. `upstream` is the answer of the
    endpoint, where there was one.
    """

    error: type[RolloutError]
    reason: str
    retry_after: float | None = None
    retryable: bool | None = None
    local: bool = False
    upstream: UpstreamAnswer | None = None

    @property
    def worth_retrying(self) -> bool:
        if self.retryable is not None:
            return self.retryable
        return TRAITS[self.error.kind].retryable

    def to_error(self, sentence: str) -> RolloutError:
        """The error to raise, with the whole sentence as its message."""
        error = self.error(sentence, retryable=self.retryable, retry_after=self.retry_after)
        error.upstream = self.upstream
        return error


class UpstreamError(msgspec.Struct, frozen=True):
    """The body of an error response: its message, and the server's names for the error."""

    message: str
    code: str = ""
    type: str = ""
    param: str = ""

    @classmethod
    def read(cls, body: bytes, redact: Redact) -> "UpstreamError":
        """Read any of the shapes in use; any other body is used as the message."""
        try:
            value: object = decode_json(body)
        except msgspec.DecodeError:
            return cls(_one_line(redact(body.decode("utf-8", "replace"))))
        error = value.get("error", value) if isinstance(value, dict) else value
        if not isinstance(error, dict):
            return cls(_one_line(redact(_text(error))))
        message = _text(error.get("message") or error.get("detail") or error)
        names = (redact(_text(error.get(name)))[:_NAME_LIMIT] for name in ("code", "type", "param"))
        return cls(_one_line(redact(message)), *names)


def failed_try_of(
    status: int, headers: Mapping[str, str], body: bytes, redact: Redact, clock: float
) -> FailedTry:
    """The failed try for a response without success. `clock` is the Unix time."""
    error = UpstreamError.read(body, redact)
    failed = _failed_try(status, headers, error, clock)
    names = UpstreamAnswer(status, error.type or None, error.code or None, error.param or None)
    return msgspec.structs.replace(failed, upstream=names)


def _failed_try(
    status: int, headers: Mapping[str, str], error: UpstreamError, clock: float
) -> FailedTry:
    said = f"answered {status}: {error.message}" if error.message else f"answered {status}"
    if status in _MAY_MEAN_OVERFLOW and is_overflow(error.message, error.code, error.type):
        return FailedTry(ModelContextError, said)
    if status == 429:
        wait = requested_wait(headers, error.message, clock)
        if "insufficient_quota" in {error.code, error.type}:
            said += "; waiting does not help"
            return FailedTry(ModelRateLimitError, said, wait, retryable=False, local=True)
        return FailedTry(ModelRateLimitError, said, wait)
    if status == 500 and _WRONG_FOR_LLAMA_CPP.match(error.message):
        return FailedTry(ModelRequestError, said)
    if status in _UNAVAILABLE or (status >= 500 and status not in _PERMANENT):
        return FailedTry(ModelUnavailableError, said, requested_wait(headers, "", clock))
    advice = _ADVICE.get(status, _REDIRECTED if status < 400 else "")
    kind = ModelAuthError if advice is _CHECK_KEY else ModelRequestError
    # What the user can correct at this endpoint need not be wrong at the others.
    return FailedTry(kind, said + advice, local=bool(advice))


def checked_object(body: bytes) -> bytes:
    """The body of a response that is one JSON object. Raises RowError."""
    return Row.parse(body, lazily=True).raw


def json_object(body: bytes, redact: Redact, read: Callable[[bytes], T]) -> T | FailedTry:
    """What `read` reads in the body of a successful response, if it is one JSON object."""
    try:
        return read(body)
    except (RowError, UnicodeDecodeError, msgspec.DecodeError) as error:
        said = _one_line(redact(body[:_BODY_LIMIT].decode("utf-8", "replace")))
        what = f"{said!r}, which is not a JSON object ({error})" if said else "an empty body"
        return FailedTry(ModelMalformedError, f"answered {what}")


def _text(value: object) -> str:
    """A value as readable text. Of validation errors of FastAPI the quoted input is left out."""
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
    """A bounded text on one line, without control characters of terminals."""
    line = " ".join(text[: 4 * MESSAGE_LIMIT].split())
    line = "".join(character for character in line if character.isprintable())
    return line if len(line) <= MESSAGE_LIMIT else f"{line[:MESSAGE_LIMIT]}…"


def is_overflow(message: str, *names: str) -> bool:
    """Whether an error says that the conversation does not fit into the context window.

    `names` are the server's names for the error: its code and its type.
    """
    return not _OVERFLOW_NAMES.isdisjoint(names) or bool(_OVERFLOW_WORDINGS.search(message))


def requested_wait(headers: Mapping[str, str], message: str, clock: float) -> float | None:
    """Seconds that the server asks us to wait, or None. `clock` is the Unix time.

    Three notations are in use: `retry-after-ms`, `retry-after` in seconds or as a date, and, by
    OpenAI, "Please try again in 6m0.5s" in the message.
    """
    milliseconds = read_seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after", "")
    asked = read_seconds(header)
    if asked is None:
        asked = _until(header, clock)
    return _phrase(message) if asked is None else asked


def _until(text: str, clock: float) -> float | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    # A date without a zone would be read in ours; HTTP's dates are in UTC.
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, date.timestamp() - clock)


def _phrase(message: str) -> float | None:
    found = _PHRASE.search(message)
    if not found:
        return None
    parts = _PART.findall(found.group(1))
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)


def retry_wait(
    settings: EndpointPoolSettings,
    failures: Sequence[FailedTry],
    left: float,
    seed: int,
    *,
    elsewhere: bool,
) -> float | None:
    """Seconds until the next try of a call, or None for no further try.

    `left` is the time until the deadline. `elsewhere` says that an endpoint is available that this
    call has not tried: it is tried at once, also after a failure that concerns one endpoint only.
    """
    latest = failures[-1]
    rejected = sum(failed.error is ModelRateLimitError for failed in failures)
    spent = len(failures) - rejected * (1 - WEIGHT_OF_REJECTION)
    malformed = sum(failed.error is ModelMalformedError for failed in failures)
    if (
        not (latest.worth_retrying or (latest.local and elsewhere))
        or latest.error is DeadlineError
        or spent > settings.max_retries
        or malformed > MALFORMED_RETRIES
    ):
        return None
    if elsewhere:
        return 0.0
    backoff = Backoff(settings.backoff_initial, maximum=settings.backoff_maximum, jitter=1.0)
    delay = backoff.delay(len(failures), seed)
    asked = latest.retry_after or 0.0
    if asked > settings.max_retry_after or max(delay, asked) >= left:
        return None
    return delay
