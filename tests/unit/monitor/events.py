"""Events as a collection would send them."""

from pathlib import Path

from rollgym.engine import AttemptRecorded, AttemptStarted, CollectionEnded, Coverage
from rollgym.records import (
    Attempt,
    Completed,
    Failed,
    Failure,
    FailureKind,
    Omitted,
    Outcome,
    RolloutKey,
)

RATE_LIMITED = Failed(Failure.make(FailureKind.MODEL_RATE_LIMIT, "HTTP 429"))
BROKEN_TOOL = Failed(Failure.make(FailureKind.TOOL, "the tool\nsaid \x1b[31mno"))
RIGHT = Completed(1.0)
WRONG = Completed(0.0)


def attempt(
    outcome: Outcome, task: int = 0, *, number: int = 1, final: bool = True, repeats: int = 1
) -> Attempt:
    return Attempt(
        task=task,
        repeat=0,
        repeats=repeats,
        attempt=number,
        final=final,
        seed=1,
        started=1000.0 + task,
        seconds=0.5,
        outcome=outcome,
    )


def recorded(
    outcome: Outcome,
    task: int = 0,
    *,
    number: int = 1,
    final: bool = True,
    replaced: Failed | Omitted | None = None,
) -> AttemptRecorded:
    record = attempt(outcome, task, number=number, final=final)
    return AttemptRecorded(record, Path("journal.jsonl"), 0, replaced)


def started(task: int = 0, *, in_flight: int = 1, limit: int = 8) -> AttemptStarted:
    return AttemptStarted(RolloutKey(task, 0), 1, in_flight, limit)


def ended(expected: int, completed: int = 0) -> CollectionEnded:
    return CollectionEnded(
        Coverage(
            expected=expected,
            completed=completed,
            failed=0,
            omitted=0,
            groups=expected,
            groups_complete=completed,
            resumed=0,
            attempts=completed,
            abandoned=0,
            dropped_events={},
        )
    )
