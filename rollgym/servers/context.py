"""The rollout that the current call works for, and its deadline.

A rollout's identifier and deadline follow its calls through every server they reach: in one process
in a context variable, between processes in two headers.

*Ending in time.* A caller that cancels a call gets no answer. So the deadline of calls is a little
earlier than the one at which a rollout is cancelled: an agent that runs into it has the time to
answer with its failure and everything up to it. In one process a caller that does cancel, for
example because the rollout is omitted, still finds that in a `RolloutProgress`.
"""

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple
from urllib.parse import quote, unquote

ROLLOUT_HEADER = "x-rollgym-rollout"
TIMEOUT_HEADER = "x-rollgym-timeout"
LONGEST_ROLLOUT_NAME = 200
LONGEST_ENDING = 5.0
ENDING_SHARE = 0.1


class RolloutProgress:
    """What a rollout has done so far, for a caller in the same process that cancels it.

    The first agent that works on the rollout sets `partial`, which returns it as JSON.
    """

    __slots__ = ("partial",)

    def __init__(self) -> None:
        self.partial: Callable[[], bytes | None] | None = None

    def kept(self) -> bytes | None:
        return self.partial() if self.partial else None


class CallContext(NamedTuple):
    """`rollout` is its name in logs. `deadline` is in the event loop's time."""

    rollout: str = ""
    deadline: float | None = None
    progress: RolloutProgress | None = None


_EMPTY = CallContext()
_CURRENT: ContextVar[CallContext] = ContextVar("rollgym_call", default=_EMPTY)


def current_rollout() -> str:
    return _CURRENT.get().rollout


def current_deadline() -> float | None:
    """The deadline in the event loop's time; None where none is set."""
    return _CURRENT.get().deadline


def seconds_left(at_most: float, loop: asyncio.AbstractEventLoop | None = None) -> float:
    """Seconds until the deadline, at most `at_most` and never below 0.

    `loop` is the running one, for a caller that knows it.
    """
    deadline = _CURRENT.get().deadline
    if deadline is None:
        return at_most
    left = deadline - (loop or asyncio.get_running_loop()).time()
    if left >= at_most:
        return at_most
    return left if left > 0 else 0.0


def ending_time(seconds: float) -> float:
    """The last part of these seconds, for the report of a rollout that does not end in them."""
    return min(LONGEST_ENDING, max(0.0, seconds) * ENDING_SHARE)


def report_progress(partial: Callable[[], bytes | None]) -> None:
    """Let a caller in the same process read what the rollout has done so far, if it asks for it."""
    progress = _CURRENT.get().progress
    if progress is not None and progress.partial is None:
        progress.partial = partial


class working_for:  # noqa: N801 - reads as a statement: `with working_for(rollout):`
    """Calls in this block work for this rollout. An outer deadline can only become earlier."""

    __slots__ = ("_deadline", "_progress", "_rollout", "_token")

    def __init__(
        self, rollout: str, deadline: float | None = None, progress: RolloutProgress | None = None
    ) -> None:
        self._rollout = rollout[:LONGEST_ROLLOUT_NAME]
        self._deadline = deadline
        self._progress = progress

    def __enter__(self) -> None:
        rollout, deadline, progress = _CURRENT.get()
        if deadline is None or (self._deadline is not None and self._deadline < deadline):
            deadline = self._deadline
        self._token = _CURRENT.set(
            CallContext(self._rollout or rollout, deadline, self._progress or progress)
        )

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
    rollout, deadline, _ = _CURRENT.get()
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
