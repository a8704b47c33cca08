"""The times inside a call of a model that its duration does not show.

A call waits in the queue of an endpoint pool, and the server reads the prompt before it samples the
first token. Whoever calls a model collects these times with `timing_call`; between processes they
are in a header of the model server's answer.
"""

from collections.abc import Mapping
from contextvars import ContextVar, Token
from typing import Any

TIMES_HEADER = "x-rollgym-model-times"
_LONGEST = 1e6
_DIGITS = 6


class CallTimes:
    """`queued` seconds in the queue, and seconds until the `first_token` where they are known."""

    __slots__ = ("first_token", "queued")

    def __init__(self, queued: float = 0.0, first_token: float | None = None) -> None:
        self.queued = queued
        self.first_token = first_token

    def headers(self) -> dict[str, str]:
        """The header; none where there is nothing to report."""
        if not self.queued and self.first_token is None:
            return {}
        first = "" if self.first_token is None else round(self.first_token, _DIGITS)
        return {TIMES_HEADER: f"{round(self.queued, _DIGITS)},{first}"}

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> "CallTimes":
        """The times of an answer; an invalid header is ignored."""
        sent = headers.get(TIMES_HEADER)
        if sent is None:
            return cls()
        queued, _, first = sent.partition(",")
        return cls(_seconds(queued) or 0.0, _seconds(first))


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


def note_first_token(completion: Mapping[str, Any]) -> None:
    """Note the time until the first token, where the server reports it as llama.cpp does."""
    times, reported = _TIMES.get(), completion.get("timings")
    if times is None or not isinstance(reported, dict):
        return
    milliseconds = reported.get("prompt_ms")
    if isinstance(milliseconds, int | float) and 0 <= milliseconds <= _LONGEST * 1000:
        times.first_token = milliseconds / 1000


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds <= _LONGEST else None
