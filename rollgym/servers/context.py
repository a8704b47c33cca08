"""The rollout that the current call works for, and its deadline.

A rollout's identifier and deadline follow its calls through every server they reach: in one process
in a context variable, between processes in two headers.
"""

import asyncio
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple
from urllib.parse import quote, unquote

ROLLOUT_HEADER = "x-rollgym-rollout"
TIMEOUT_HEADER = "x-rollgym-timeout"
LONGEST_ROLLOUT_NAME = 200


class CallContext(NamedTuple):
    """`rollout` is its name in logs. `deadline` is in the event loop's time."""

    rollout: str = ""
    deadline: float | None = None


_EMPTY = CallContext()
_CURRENT: ContextVar[CallContext] = ContextVar("rollgym_call", default=_EMPTY)


def current_rollout() -> str:
    return _CURRENT.get().rollout


def current_deadline() -> float | None:
    """The deadline in the event loop's time; None where none is set."""
    return _CURRENT.get().deadline


def seconds_left(at_most: float) -> float:
    """Seconds until the deadline, at most `at_most` and never below 0."""
    deadline = current_deadline()
    if deadline is None:
        return at_most
    return max(0.0, min(at_most, deadline - asyncio.get_running_loop().time()))


class working_for:  # noqa: N801 - reads as a statement: `with working_for(rollout):`
    """Calls in this block work for this rollout. An outer deadline can only become earlier."""

    __slots__ = ("_deadline", "_rollout", "_token")

    def __init__(self, rollout: str, deadline: float | None = None) -> None:
        self._rollout = rollout[:LONGEST_ROLLOUT_NAME]
        self._deadline = deadline

    def __enter__(self) -> None:
        rollout, deadline = _CURRENT.get()
        if deadline is None or (self._deadline is not None and self._deadline < deadline):
            deadline = self._deadline
        self._token = _CURRENT.set(CallContext(self._rollout or rollout, deadline))

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._token)


@contextmanager
def after_the_deadline() -> Iterator[None]:
    """Calls in this block have no deadline: for cleaning up, such as closing a session."""
    token = _CURRENT.set(CallContext(current_rollout()))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def outgoing_headers() -> dict[str, str]:
    """The context as headers for another process."""
    rollout, deadline = _CURRENT.get()
    headers = {ROLLOUT_HEADER: quote(rollout, errors="replace")} if rollout else {}
    if deadline is not None:
        left = max(0.0, deadline - asyncio.get_running_loop().time())
        headers[TIMEOUT_HEADER] = f"{left:.3f}"
    return headers


def incoming_context(headers: Mapping[str, str]) -> CallContext:
    """The context in the headers of another process; invalid headers are ignored."""
    rollout = unquote(headers.get(ROLLOUT_HEADER, ""))
    deadline = None
    try:
        left = float(headers.get(TIMEOUT_HEADER, "nan"))
    except ValueError:
        left = math.nan
    if math.isfinite(left):
        deadline = asyncio.get_running_loop().time() + max(0.0, left)
    return CallContext(rollout, deadline)
