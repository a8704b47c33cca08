"""What a call of a model has besides its answer: the times inside it, and the policy version.

A call waits in the queue of an endpoint pool, and the server reads the prompt before it samples the
first token. The endpoint may say in a header which version of the policy sampled the answer.
The caller of a model collects this with `timing_call`; between processes it is in headers of the
model server's answer, which says the version under `POLICY_VERSION_HEADER`.
"""

from collections.abc import Mapping
from contextvars import ContextVar, Token
from typing import Any, Literal

from rollgym.records.failure import read_seconds
from rollgym.records.version import body_version, version_text

TIMES_HEADER = "x-rollgym-model-times"
POLICY_VERSION_HEADER = "x-policy-version"
VersionFallback = Literal["model", "system_fingerprint"]
"""The field to use as policy version in answers of endpoints that send none."""
_LONGEST = 1e6
_DIGITS = 6


class CallTimes:
    """`queued` seconds in the queue, and seconds until the `first_token` where they are known.

    `version` is the header of the endpoint with the policy version; "" where there is none.
    """

    __slots__ = ("first_token", "queued", "version")

    def __init__(
        self, queued: float = 0.0, first_token: float | None = None, version: str = ""
    ) -> None:
        self.queued = queued
        self.first_token = first_token
        self.version = version

    def headers(self) -> dict[str, str]:
        """The headers; none where there is nothing to report."""
        headers = {POLICY_VERSION_HEADER: self.version} if self.version else {}
        if self.queued or self.first_token is not None:
            first = "" if self.first_token is None else round(self.first_token, _DIGITS)
            headers[TIMES_HEADER] = f"{round(self.queued, _DIGITS)},{first}"
        return headers

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> "CallTimes":
        """The times of an answer; an invalid header is ignored."""
        if not headers:
            return _NO_TIMES
        version = headers.get(POLICY_VERSION_HEADER, "")
        sent = headers.get(TIMES_HEADER)
        if sent is None:
            return cls(version=version)
        queued, _, first = sent.partition(",")
        return cls(read_seconds(queued, _LONGEST) or 0.0, read_seconds(first, _LONGEST), version)


_NO_TIMES = CallTimes()
_TIMES: ContextVar[CallTimes | None] = ContextVar("rollgym_call_times", default=None)


class timing_call:  # noqa: N801 - reads as a statement: `with timing_call() as times:`
    """Collect the times of the call in this block."""

    __slots__ = ("_token",)

    _token: Token[CallTimes | None]

    def __enter__(self) -> CallTimes:
        times = CallTimes()
        self._token = _TIMES.set(times)
        return times

    def __exit__(self, *_: object) -> None:
        _TIMES.reset(self._token)


def note_queued(seconds: float) -> None:
    """Add to the time in the queue of the call that is made."""
    times = _TIMES.get()
    if times is not None:
        times.queued += seconds


def note_version(text: str) -> None:
    """Note what the endpoint says of the policy version in its header; "" where it says nothing."""
    times = _TIMES.get()
    if times is not None:
        times.version = text


def note_fallback(answer: Mapping[str, Any], fallback: VersionFallback | None) -> None:
    """Note a field of an answer as its policy version where the endpoint says none."""
    times = _TIMES.get()
    if fallback is None or times is None or times.version or body_version(answer).version:
        return
    value = answer.get(fallback)
    if isinstance(value, str) and "," not in value:  # a header with a comma has two versions
        times.version = version_text(value)


def note_first_token(completion: Mapping[str, Any]) -> None:
    """Note the time until the first token, where the server reports it as llama.cpp does."""
    times, reported = _TIMES.get(), completion.get("timings")
    if times is None or not isinstance(reported, dict):
        return
    milliseconds = reported.get("prompt_ms")
    if isinstance(milliseconds, int | float) and 0 <= milliseconds <= _LONGEST * 1000:
        times.first_token = milliseconds / 1000
