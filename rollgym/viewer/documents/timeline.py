"""Where a rollout's time went, from the metadata of its row."""

from collections.abc import Mapping, Sequence

import msgspec

from rollgym.viewer.documents.texts import short
from rollgym.viewer.values import ABSENT, Fields, fields_of, number_of, read
from rollgym.viewer.view import Span, Timeline

MOST_SPANS = 2_000
MOST_PHASES = 50
LEFT_OUT_SECONDS = 1e-3
"""How much longer a phase may be than its spans, which are rounded, before some are missing."""
_LABEL_LIMIT = 80


class Times(msgspec.Struct, frozen=True):
    """The part of a row's metadata that is about time."""

    spans: msgspec.Raw = ABSENT
    timings: msgspec.Raw = ABSENT


class _Span(msgspec.Struct, frozen=True):
    phase: str
    start: float
    seconds: float
    label: str = ""


_TIMES = msgspec.json.Decoder(Times)
_SPANS = msgspec.json.Decoder(list[_Span])


def timeline_of(metadata: msgspec.Raw | None, seconds: float | None) -> Timeline | None:
    """The timeline of a rollout that took so long; None where nothing is said of its time.

    Where it is known when the calls were, it is exact; a rollout of very many tells of its first
    calls only, so the sums are those that the metadata gives, if it gives any.
    """
    times = read(metadata, _TIMES)
    if times is None:
        return None
    told = read(times.spans, _SPANS) or []
    spans = _spans(told[:MOST_SPANS])
    totals = _totals(fields_of(times.timings) or {}) or _sums(spans)
    if not spans and not totals:
        return None
    end = max((span.start + span.seconds for span in spans), default=0.0)
    least = end if spans else sum(totals.values())
    return Timeline(
        seconds=max(seconds or 0.0, least),
        complete=len(told) <= MOST_SPANS and _add_up(spans, totals),
        spans=spans,
        totals=totals,
        exact=bool(spans),
    )


def _add_up(spans: Sequence[Span], totals: Mapping[str, float]) -> bool:
    """Whether the spans are all that the sums of their phases are of.

    A sum of which there is no span, such as one of everything, is of nothing that has any.
    """
    return all(
        totals.get(phase, 0.0) - told <= LEFT_OUT_SECONDS for phase, told in _sums(spans).items()
    )


def _spans(told: Sequence[_Span]) -> tuple[Span, ...]:
    spans = (
        Span(short(span.phase), span.start, span.seconds, short(span.label, _LABEL_LIMIT))
        for span in told
        if span.start >= 0 and span.seconds >= 0
    )
    return tuple(sorted(spans, key=lambda span: span.start))


def _totals(timings: Fields) -> dict[str, float]:
    totals: dict[str, float] = {}
    for name, raw in timings.items():
        seconds = number_of(raw)
        if seconds is not None and seconds >= 0 and len(totals) < MOST_PHASES:
            totals[short(name)] = seconds
    return totals


def _sums(spans: Sequence[Span]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for span in spans:
        sums[span.phase] = sums.get(span.phase, 0.0) + span.seconds
    return sums
