"""Which turn each bar of a timeline is of: that of a reply of the model, or of a call of a tool.

An agent asks the model, calls the tools that the reply asks for, and asks again. Its spans go
round in the same way, so the n-th span of the model is of the n-th reply, and the spans of tools
that follow it are of that reply's calls. A span says the name of its tool and not which call it is
of: of calls with one name that began one after another, the first is the first.

Spans are given turns only where no other reading is possible; where the two do not fit, none is.
Spans of a long rollout are those of its first calls, and fit its first replies.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from rollgym.servers.spans import span_label
from rollgym.viewer.documents.conversation import Reply
from rollgym.viewer.documents.timeline import LEFT_OUT_SECONDS
from rollgym.viewer.view import Span, Timeline

MODEL = "model"
TOOLS = frozenset(("tool", "tools"))
_ROUNDING = 2e-6
"""Seconds: spans are in whole microseconds."""


class _Round(NamedTuple):
    """A span of the model and the spans of tools behind it, as places in the list of spans."""

    model: int
    tools: list[int]


def lead_to_turns(
    timeline: Timeline, replies: Sequence[Reply], *, model_failed: bool = False
) -> Timeline:
    """The timeline with the turns of its spans; as it is where they are not certain.

    `model_failed` tells that the rollout ended because the model gave no reply.
    """
    turn_of = _turns(timeline, replies, model_failed=model_failed)
    spans = (
        msgspec.structs.replace(span, step=turn_of.get(place))
        for place, span in enumerate(timeline.spans)
    )
    return msgspec.structs.replace(timeline, spans=tuple(spans))


def _turns(timeline: Timeline, replies: Sequence[Reply], *, model_failed: bool) -> dict[int, int]:
    """The turns of the spans, by the places of the spans."""
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


def _rounds(spans: Sequence[Span]) -> list[_Round]:
    """Empty where the agent did not go round: it called tools first, or asked while it called."""
    rounds: list[_Round] = []
    busy_until = 0.0
    for place, span in enumerate(spans):
        if span.phase == MODEL:
            if span.start < busy_until - _ROUNDING:
                return []
            rounds.append(_Round(place, []))
        elif span.phase not in TOOLS:
            continue
        elif not rounds:
            return []
        elif span.label:
            rounds[-1].tools.append(place)
        busy_until = max(busy_until, span.start + span.seconds)
    return rounds


def _some_left_out(timeline: Timeline) -> bool:
    told = sum(span.seconds for span in timeline.spans if span.phase == MODEL)
    return timeline.totals.get(MODEL, 0.0) - told > LEFT_OUT_SECONDS


def _same_number(
    rounds: Sequence[_Round], replies: Sequence[Reply], left_out: bool, *, model_failed: bool
) -> bool:
    if left_out:
        # There is no number to agree on: two questions in a row may be one that was repeated.
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
    spans: Sequence[Span], places: Sequence[int], turns: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """The spans of one tool in a round, with the turns that asked for it."""
    if len(set(turns)) == 1:
        yield from ((place, turns[0]) for place in places)
        return
    one_after_another = len({spans[place].start for place in places}) == len(places)
    if len(places) == len(turns) and one_after_another:
        yield from zip(places, turns, strict=True)
