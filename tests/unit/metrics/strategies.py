"""Attempts to count: a builder with defaults, and hypothesis strategies for whole runs."""

from hypothesis import strategies as st

from rollgym.records import (
    Attempt,
    Completed,
    Failed,
    Failure,
    FailureKind,
    OmitReason,
    Omitted,
    Outcome,
    Usage,
)
from rollgym.records.version import PolicyTurn, VersionPart

REWARDED = Completed(1.0)
UNREWARDED = Completed(0.0)


def failed(kind: FailureKind = FailureKind.TOOL) -> Failed:
    return Failed(Failure.make(kind, "it broke"))


def attempt(
    outcome: Outcome,
    *,
    task: int = 0,
    repeat: int = 0,
    repeats: int = 1,
    number: int = 1,
    final: bool = True,
    started: float = 1_000.0,
    seconds: float = 1.0,
) -> Attempt:
    return Attempt(
        task=task,
        repeat=repeat,
        repeats=repeats,
        attempt=number,
        final=final,
        seed=0,
        started=started,
        seconds=seconds,
        outcome=outcome,
    )


def group(*outcomes: Outcome, task: int = 0) -> list[Attempt]:
    """A task with one final record for each of its repeats."""
    return [
        attempt(outcome, task=task, repeat=repeat, repeats=len(outcomes))
        for repeat, outcome in enumerate(outcomes)
    ]


EXTREMES = [0.0, -0.0, 1.0, -1.0, 0.1, 1e308, -1e308, 5e-324, -5e-324, 1.7976931348623157e308]
numbers = st.sampled_from(EXTREMES) | st.floats(allow_nan=False, allow_infinity=False)
usages = st.builds(Usage, *[st.integers(0, 10_000)] * 4)
versions = st.sampled_from(["", "7", "8", "10", "final"])
turns = st.lists(
    st.builds(
        PolicyTurn,
        start=st.none() | st.floats(0, 100),
        version=versions,
        parts=st.just(()) | st.tuples(st.builds(VersionPart, versions), st.just(VersionPart("9"))),
    ),
    max_size=3,
).map(tuple)
completed = st.builds(
    Completed,
    numbers,
    success=st.none() | st.booleans(),
    measures=st.dictionaries(st.sampled_from(["steps", "tool_calls", "chars"]), numbers),
    usage=usages,
    turns=turns,
)
failures = st.builds(failed, st.sampled_from(FailureKind))
omissions = st.builds(Omitted, st.sampled_from(OmitReason), usage=usages, turns=turns)
unfinished = failures | omissions
outcomes = completed | failures | omissions

_started = st.floats(1.7e9, 1.7e9 + 20_000)
_seconds = st.floats(0, 8_000) | numbers


@st.composite
def runs(draw: st.DrawFn) -> list[Attempt]:
    """The records of a run: retries first, and every rollout with one end or none yet."""
    return [
        attempt(
            draw(outcomes if final else failures),
            task=task,
            repeat=repeat,
            repeats=repeats,
            number=number,
            final=final,
            started=draw(_started),
            seconds=draw(_seconds),
        )
        for task, repeats in enumerate(draw(st.lists(st.integers(1, 4), max_size=4)))
        for repeat in range(repeats)
        for number, final in enumerate(draw(st.sampled_from(_HISTORIES)), start=1)
    ]


_HISTORIES: list[list[bool]] = [[], [False], [True], [False, True], [False, False, True]]
"""For each attempt at a rollout, whether it was the last."""


@st.composite
def rerun_histories(draw: st.DrawFn) -> list[list[Attempt]]:
    """For each rollout of a run its ends in order; all but the last are to be run again."""
    return [
        [
            attempt(outcome, task=task, repeat=repeat, repeats=repeats, number=number)
            for number, outcome in enumerate(
                [*draw(st.lists(unfinished, max_size=2)), draw(outcomes)], start=1
            )
        ]
        for task, repeats in enumerate(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
        for repeat in range(repeats)
    ]
