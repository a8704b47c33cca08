"""The timeline of a rollout, from the metadata of its row, and the turn that each span belongs to.

An agent asks the model, calls the tools that the reply requests, and asks again. Its spans follow
the same order, so the n-th span of the model belongs to the n-th reply, and the tool spans after it
belong to that reply's calls. A span has the name of its tool but not the id of the call: of several
calls with one name that started one after another, the first span belongs to the first call.

Spans are only assigned to turns where no other reading is possible; where spans and replies do not
match, none is assigned. A long rollout stores the spans of its first calls, which belong to its
first replies.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from rollgym.servers.spans import span_label
from rollgym.viewer.documents.conversation import ModelReply
from rollgym.viewer.documents.texts import short
from rollgym.viewer.values import Fields, fields_of, number_of, read
from rollgym.viewer.view import SpanView, TimelineView

MOST_SPANS = 2_000
MOST_PHASES = 50
LEFT_OUT_SECONDS = 1e-3
"""A phase may be this much longer than its rounded spans before spans count as missing."""
_LABEL_LIMIT = 80


class _SpanFields(msgspec.Struct, frozen=True):
    phase: str
    start: float
    seconds: float
    label: str = ""


_SPANS = msgspec.json.Decoder(list[_SpanFields])


def timeline_of(metadata: Fields, seconds: float | None) -> TimelineView | None:
    """The timeline of a rollout that took that many seconds; None where nothing is known.

    It is exact if the metadata has spans. A rollout with very many calls only stores the first
    spans, so the totals come from the metadata if it has any.
    """
    stored = read(metadata.get("spans"), _SPANS) or []
    spans = _spans(stored[:MOST_SPANS])
    totals = _totals(fields_of(metadata.get("timings")) or {}) or _sums(spans)
    if not spans and not totals:
        return None
    end = max((span.start + span.seconds for span in spans), default=0.0)
    least = end if spans else sum(totals.values())
    return TimelineView(
        seconds=max(seconds or 0.0, least),
        complete=len(stored) <= MOST_SPANS and _add_up(spans, totals),
        spans=spans,
        totals=totals,
        exact=bool(spans),
    )


def _add_up(spans: Sequence[SpanView], totals: Mapping[str, float]) -> bool:
    """Whether the spans add up to the totals of their phases.

    A phase without any span, such as the total of everything, does not count.
    """
    return all(
        totals.get(phase, 0.0) - seconds <= LEFT_OUT_SECONDS
        for phase, seconds in _sums(spans).items()
    )


def _spans(stored: Sequence[_SpanFields]) -> tuple[SpanView, ...]:
    spans = (
        SpanView(short(span.phase), span.start, span.seconds, short(span.label, _LABEL_LIMIT))
        for span in stored
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


def _sums(spans: Sequence[SpanView]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for span in spans:
        sums[span.phase] = sums.get(span.phase, 0.0) + span.seconds
    return sums


MODEL = "model"
TOOLS = frozenset(("tool", "tools"))
_ROUNDING = 2e-6
"""Seconds: spans are stored in whole microseconds."""


class _ModelRound(NamedTuple):
    """A span of the model and the tool spans after it, as indexes into the list of spans."""

    model: int
    tools: list[int]


def assign_turns(
    timeline: TimelineView, replies: Sequence[ModelReply], *, model_failed: bool = False
) -> TimelineView:
    """The timeline with the turns of its spans; unchanged where they are not certain.

    `model_failed` says that the rollout ended because the model did not reply.
    """
    turn_of = _turns(timeline, replies, model_failed=model_failed)
    spans = (
        msgspec.structs.replace(span, step=turn_of.get(place))
        for place, span in enumerate(timeline.spans)
    )
    return msgspec.structs.replace(timeline, spans=tuple(spans))


def _turns(
    timeline: TimelineView, replies: Sequence[ModelReply], *, model_failed: bool
) -> dict[int, int]:
    """The turns of the spans, by the indexes of the spans."""
    spans, turns = timeline.spans, dict[int, int]()
    rounds = _rounds(spans)
    if not _same_number(rounds, replies, _some_left_out(timeline), model_failed=model_failed):
        return {}
    for round_, reply in zip(rounds, replies, strict=False):
        turns[round_.model] = reply.turn
        made = _by_name((spans[place].label, place) for place in round_.tools)
        asked = _by_name((span_label(name), turn) for name, turn in reply.calls)
        for name, places in made.items():
            if len(places) > len(asked[name]):
                return {}
            turns.update(_pairs(spans, places, asked[name]))
    return turns


def _rounds(spans: Sequence[SpanView]) -> list[_ModelRound]:
    """Empty if the agent called tools before it asked the model, or while it asked."""
    rounds: list[_ModelRound] = []
    busy_until = 0.0
    for place, span in enumerate(spans):
        if span.phase == MODEL:
            if span.start < busy_until - _ROUNDING:
                return []
            rounds.append(_ModelRound(place, []))
        elif span.phase not in TOOLS:
            continue
        elif not rounds:
            return []
        elif span.label:
            rounds[-1].tools.append(place)
        busy_until = max(busy_until, span.start + span.seconds)
    return rounds


def _some_left_out(timeline: TimelineView) -> bool:
    shown = sum(span.seconds for span in timeline.spans if span.phase == MODEL)
    return timeline.totals.get(MODEL, 0.0) - shown > LEFT_OUT_SECONDS


def _same_number(
    rounds: Sequence[_ModelRound],
    replies: Sequence[ModelReply],
    left_out: bool,
    *,
    model_failed: bool,
) -> bool:
    if left_out:
        # The numbers cannot be compared: two requests in a row may be one that was repeated.
        repeated = any(not before.tools for before, _ in pairwise(rounds))
        return len(rounds) <= len(replies) and not repeated
    unanswered = int(model_failed and bool(rounds) and not rounds[-1].tools)
    return len(replies) <= len(rounds) <= len(replies) + unanswered


def _by_name(named: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for name, number in named:
        found[name].append(number)
    return found


def _pairs(
    spans: Sequence[SpanView], places: Sequence[int], turns: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """The spans of one tool in a round, with the turns that called it."""
    if len(set(turns)) == 1:
        yield from ((place, turns[0]) for place in places)
        return
    one_after_another = len({spans[place].start for place in places}) == len(places)
    if len(places) == len(turns) and one_after_another:
        yield from zip(places, turns, strict=True)
