"""The policy versions of turns whose model server does not say them: by their times.

A worker says when its turns were, counted from the start of its attempt. Where it began later than
its caller knows (another process, a blocked event loop), the turns may have been later by that
much: `begun_late` makes them longer by it. A wait that is known moves them (`begun_after`). So a
turn is given one version only if no other one was current at any time at which it may have run, or
within `MARGIN` of it. Otherwise it has all of them, in their order.

What was before the first known version is unknown, and stays so.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from rollgym.engine.control import PolicyVersion
from rollgym.engine.work import EncodedAttempt
from rollgym.records import Outcome
from rollgym.records.decoding import JsonDecoder
from rollgym.records.usage import to_microsecond
from rollgym.records.version import PolicyTurn, TurnVersion

_TURNS = JsonDecoder(tuple[PolicyTurn, ...])
encode_turns = msgspec.json.Encoder().encode
_OutcomeT = TypeVar("_OutcomeT", bound=Outcome)
NEGLIGIBLE = 0.001
"""Seconds of lateness that `MARGIN` covers."""
MARGIN = 0.003
"""Seconds for the lateness that is neglected, and what runs between two readings of a clock."""


def begun_late(outcome: _OutcomeT, seconds: float) -> _OutcomeT:
    """The outcome of work that may have begun up to `seconds` after what its turns count from."""
    if seconds < NEGLIGIBLE or not outcome.turns:
        return outcome
    turns = tuple(
        [
            turn
            if _cannot_be_labelled(turn)
            else msgspec.structs.replace(turn, seconds=to_microsecond(turn.seconds + seconds))
            for turn in outcome.turns
        ]
    )
    return msgspec.structs.replace(outcome, turns=turns)


def begun_after(outcome: _OutcomeT, seconds: float) -> _OutcomeT:
    """The outcome of work that waited this long after what its turns are to count from."""
    if seconds < NEGLIGIBLE or not outcome.turns:
        return outcome
    turns = tuple(
        [
            turn
            if turn.start is None or _cannot_be_labelled(turn)
            else msgspec.structs.replace(turn, start=to_microsecond(turn.start + seconds))
            for turn in outcome.turns
        ]
    )
    return msgspec.structs.replace(outcome, turns=turns)


def with_turns(encoded: EncodedAttempt) -> Outcome:
    """The outcome of an attempt with the turns that its record is without."""
    outcome = encoded.attempt.outcome
    turns = _TURNS.decode(encoded.turns) if encoded.turns else ()
    whole = msgspec.structs.replace(outcome, turns=turns)
    return begun_after(begun_late(whole, encoded.late), encoded.waited)


def with_versions(
    outcome: _OutcomeT, history: Sequence[PolicyVersion], began: float, late: float = 0.0
) -> _OutcomeT:
    """The outcome of an attempt that began at this time of the event loop, with its versions.

    It may have begun up to `late` seconds later. `history` are all versions that a `Control` knows,
    in the order of their times. Where no version is known at all, the turns are left out.
    """
    turns: tuple[PolicyTurn, ...] = ()
    if history or has_version(outcome.turns):
        turns = begun_late(outcome, late).turns
        if history and not all(map(_cannot_be_labelled, turns)):
            turns = tuple(_labelled(turn, history, began) for turn in turns)
        turns = turns if has_version(turns) else ()
    return outcome if turns is outcome.turns else msgspec.structs.replace(outcome, turns=turns)


def has_version(turns: Sequence[PolicyTurn]) -> bool:
    return any(turn.version or turn.parts for turn in turns)


def _cannot_be_labelled(turn: PolicyTurn) -> bool:
    """Whether it has a version, or was in an earlier attempt, whose beginning is not known here."""
    return bool(turn.version or turn.parts) or turn.start is None


def _labelled(turn: PolicyTurn, history: Sequence[PolicyVersion], began: float) -> PolicyTurn:
    if turn.start is None or _cannot_be_labelled(turn):
        return turn
    start, end = began + turn.start - MARGIN, began + turn.start + turn.seconds + MARGIN
    first = bisect_right(history, start, key=lambda since: since.monotonic)
    last = bisect_right(history, end, key=lambda since: since.monotonic)
    before = history[first - 1].version if first else ""
    found = TurnVersion.of([before, *(since.version for since in history[first:last])])
    return msgspec.structs.replace(turn, version=found.version, parts=found.parts)
