"""The outcome of one attempt, whatever its worker returned or raised.

A worker is plug-in code, so nothing that it returns is trusted: what is not a valid outcome becomes
an internal failure, and so does an exception that is not a RolloutError.
"""

import asyncio
import math
from typing import TypedDict

import msgspec

from rollgym.engine.work import EncodedAttempt, Worker, WorkItem
from rollgym.records import (
    Cause,
    Completed,
    Failed,
    Failure,
    FailureKind,
    OmitReason,
    Omitted,
    Outcome,
    Span,
    Usage,
)
from rollgym.records.version import PolicyTurn
from rollgym.store import StorageError


async def outcome_of_attempt(
    worker: Worker, item: WorkItem, attempt: int, deadline: float
) -> Outcome | EncodedAttempt:
    """Run one attempt. Raises only its cancellation, StorageError and KeyboardInterrupt."""
    try:
        return _checked(await worker(item, attempt, deadline))
    except (asyncio.CancelledError, KeyboardInterrupt, StorageError):
        raise  # a disk that fails under a worker stops the collection, as under the journal
    except BaseException as error:  # noqa: BLE001 - a worker may raise anything
        return Failed(_failure_of(error))


def _failure_of(error: BaseException) -> Failure:
    """Turn an exception into a failure, even where reading its attributes raises."""
    try:
        return Failure.of(error)
    except Exception as unreadable:  # noqa: BLE001 - its attributes are plug-in code too
        what = f"{type(error).__name__}, which cannot be read ({type(unreadable).__name__})"
        return Failure.make(FailureKind.INTERNAL, f"the worker raised {what}")


def _checked(outcome: object) -> Outcome | EncodedAttempt:
    """Return a valid outcome, or an internal failure; the store checks the remaining fields."""
    match outcome:
        case EncodedAttempt():
            return outcome  # the other process has checked it
        case Completed():
            return _with_usable_reward(outcome)
        case Failed(failure=Failure(kind=FailureKind(), retry_after=int() | float() | None)):
            return outcome
        case Omitted(reason=OmitReason()):
            return outcome
        case Failed() | Omitted():
            what = f"{type(outcome).__name__} without a reason"
        case _:
            what = f"{type(outcome).__name__}, which is not an outcome"
    return Failed(Failure.make(FailureKind.INTERNAL, f"the worker returned {what}"))


def _with_usable_reward(outcome: Completed) -> Completed | Failed:
    """Convert the reward, which may be any kind of number (of an array, a tensor), to a float."""
    given: object = outcome.reward
    if type(given) is float and math.isfinite(given):
        return outcome
    try:
        reward = math.nan if isinstance(given, str | bytes) else float(outcome.reward)
    except Exception:  # noqa: BLE001 - a user's number type may raise anything
        reward = math.nan
    if math.isfinite(reward):
        return msgspec.structs.replace(outcome, reward=reward)
    failure = Failure.make(
        FailureKind.VERIFIER, f"the reward {given!r:.100} is not a finite number"
    )
    return Failed(failure, **_partial_result(outcome))


def timed_out(outcome: Outcome | None, seconds: float) -> Outcome:
    """The outcome of an attempt cancelled at its deadline; a typed one of the worker is kept.

    A worker that only says that it was cancelled does not know why.
    """
    if isinstance(outcome, Omitted):
        return outcome
    failure = Failure.make(FailureKind.TIMEOUT, f"no end after {seconds:.1f} s")
    if outcome is None:
        return Failed(failure)
    kind = outcome.failure.kind if isinstance(outcome, Failed) else None
    if kind not in (None, FailureKind.INTERNAL, FailureKind.CANCELLED):
        return outcome
    if isinstance(outcome, Failed) and kind is FailureKind.INTERNAL:
        cleanup = outcome.failure
        causes = (Cause("while it was cancelled", cleanup.detail), *cleanup.causes)
        failure = msgspec.structs.replace(failure, causes=causes, traceback=cleanup.traceback)
    return Failed(failure, **_partial_result(outcome))


def omitted(outcome: Outcome | None, reason: OmitReason, detail: str) -> Outcome:
    """The outcome of an attempt that was cancelled on purpose, with its partial result."""
    if outcome is None:
        return Omitted(reason, detail)
    return Omitted(reason, detail, **_partial_result(outcome))


class _PartialResult(TypedDict):
    usage: Usage
    phases: dict[str, float]
    spans: tuple[Span, ...]
    turns: tuple[PolicyTurn, ...]
    result: msgspec.Raw


def _partial_result(outcome: Outcome) -> _PartialResult:
    """The parts of an outcome that another outcome keeps when it replaces it."""
    return _PartialResult(
        usage=outcome.usage,
        phases=outcome.phases,
        spans=outcome.spans,
        turns=outcome.turns,
        result=outcome.result,
    )
