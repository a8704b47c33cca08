"""When an episode did what: its phases one behind another, as they were.

An episode does one thing at a time, and keeps how long each took: by step in the step's `timings`,
in the order in which they were, and for the whole attempt in the outcome's `phases`. What the whole
has more than its steps was before the first (opening the start page), within a step that broke, or
after the last (judging). The wait for a browser comes first.
"""

from collections.abc import Mapping, Sequence

from rollgym.viewer.documents.timeline import MOST_SPANS
from rollgym.viewer.view import Span, Timeline
from webgym.episode.worker import WAITING

FIRST, LAST = "navigate", "reward"
_NOTHING = 1e-6
"""Seconds: less is the rounding of sums."""


def lay_out(
    timings: Sequence[Mapping[str, float]], phases: Mapping[str, float], seconds: float | None
) -> Timeline | None:
    """The timeline of steps with these timings; None where nothing was kept.

    Without `phases` and `seconds`, as in a `.pt`, it is that of the steps alone. One of very many
    steps has the first of its spans only; the totals are those of all.
    """
    left = _beyond_steps(timings, phases)
    laid = _Laid()
    laid.add(WAITING, left.pop(WAITING, 0.0), label="waiting for a browser")
    laid.add(FIRST, left.pop(FIRST, 0.0), step=0, label="the start page")
    for index, step in enumerate(timings):
        for phase, took in step.items():
            laid.add(phase, took, step=index)
    judging = left.pop(LAST, 0.0)
    for phase, took in left.items():
        laid.add(phase, took, step=len(timings) - 1 if timings else None, label="not finished")
    laid.add(LAST, judging, label="the whole rollout")
    if not laid.spans:
        return None
    spans = tuple(laid.spans[:MOST_SPANS])
    return Timeline(
        seconds=laid.end if seconds is None else seconds,
        complete=len(spans) == len(laid.spans),
        spans=spans,
        totals=laid.totals,
        exact=True,
    )


class _Laid:
    """Spans one behind another."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.totals: dict[str, float] = {}
        self.end = 0.0

    def add(self, phase: str, seconds: float, *, step: int | None = None, label: str = "") -> None:
        if seconds <= _NOTHING:
            return
        self.spans.append(Span(phase, self.end, seconds, label, step))
        self.totals[phase] = self.totals.get(phase, 0.0) + seconds
        self.end += seconds


def _beyond_steps(
    timings: Sequence[Mapping[str, float]], phases: Mapping[str, float]
) -> dict[str, float]:
    """What the whole attempt has of each phase more than its steps have."""
    left = dict(phases)
    for step in timings:
        for phase, took in step.items():
            if phase in left:
                left[phase] -= took
    return left
