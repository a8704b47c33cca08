"""What an attempt came to, from what its worker returned and why it was halted."""

import math
from typing import TypedDict

import msgspec

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


def sound(outcome: object) -> Outcome:
    """The outcome, if it is one, as far as the engine acts on it; the store checks the rest."""
    match outcome:
        case Completed():
            return _with_usable_reward(outcome)
        case Failed(failure=Failure(kind=FailureKind(), retry_after=int() | float() | None)):
            return outcome
        case Omitted(reason=OmitReason()):
            return outcome
        case Failed() | Omitted():
            what = f"{type(outcome).__name__} without a reason"
        case _:
            what = f"{type(outcome).__name__}, which is no outcome"
    return Failed(Failure.make(FailureKind.INTERNAL, f"the worker returned {what}"))


def _with_usable_reward(outcome: Completed) -> Completed | Failed:
    """A reward may come as any kind of number, an array's or a tensor's too; it must be finite."""
    given: object = outcome.reward
    if type(given) is float and math.isfinite(given):
        return outcome
    try:
        reward = math.nan if isinstance(given, str | bytes) else float(outcome.reward)
    except Exception:  # noqa: BLE001 - a number of somebody's own making may raise anything
        reward = math.nan
    if math.isfinite(reward):
        return msgspec.structs.replace(outcome, reward=reward)
    failure = Failure.make(FailureKind.VERIFIER, f"the reward {given!r:.100} is no finite number")
    return Failed(failure, **_kept(outcome))


def timed_out(outcome: Outcome | None, seconds: float) -> Outcome:
    """Cancelled at its deadline. A worker that ends by its own words keeps them."""
    if isinstance(outcome, Omitted):
        return outcome
    if isinstance(outcome, Failed) and outcome.failure.kind is not FailureKind.INTERNAL:
        return outcome
    failure = Failure.make(FailureKind.TIMEOUT, f"no end after {seconds:.1f} s")
    if outcome is None:
        return Failed(failure)
    if isinstance(outcome, Failed):
        cleanup = outcome.failure
        causes = (Cause("while it was cancelled", cleanup.detail), *cleanup.causes)
        failure = msgspec.structs.replace(failure, causes=causes, traceback=cleanup.traceback)
    return Failed(failure, **_kept(outcome))


def straggler(outcome: Outcome | None) -> Outcome:
    """Cancelled as a straggler. What it had so far is kept with it."""
    detail = "cancelled when enough of the others had finished"
    if outcome is None:
        return Omitted(OmitReason.STRAGGLER, detail)
    return Omitted(OmitReason.STRAGGLER, detail, **_kept(outcome))


class _Kept(TypedDict):
    usage: Usage
    phases: dict[str, float]
    spans: tuple[Span, ...]
    result: msgspec.Raw


def _kept(outcome: Outcome) -> _Kept:
    """What an outcome has of its interaction, for another outcome that takes its place."""
    return _Kept(
        usage=outcome.usage, phases=outcome.phases, spans=outcome.spans, result=outcome.result
    )
