"""Spans: the times of the calls of an episode, for its caller.

They cross from an agent to its caller in a header beside the sums of the phases, or with the
partial result of an episode that failed: `[[phase, start, length, label], …]`, in whole
microseconds since the start of the episode. A header has to stay well below the 8 KiB that HTTP
libraries accept, so only the first calls of a long episode have spans; the sums count all calls.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from rollgym.records import Span
from rollgym.records.decoding import JsonDecoder

SPANS_HEADER = "x-rollgym-spans"
MOST_SPANS = 100
LONGEST_HEADER = 6_000
LONGEST_LABEL = 40
_MICROSECONDS = 1e6
Timed = tuple[str, float, float, str]
"""A call of an episode: phase, start and end by the performance counter, label."""
WireSpan = tuple[str, int, int, str]
_Microseconds = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
_SPANS = JsonDecoder(list[tuple[str, _Microseconds, _Microseconds, str]])
_ENCODER = msgspec.json.Encoder()


def spans_of(calls: Sequence[Timed], began: float) -> tuple[Span, ...]:
    """The spans of calls, counted from `began`. Labels are cut and safe in a header."""
    return tuple(
        [
            Span(
                phase,
                int((start - began) * _MICROSECONDS) / _MICROSECONDS,
                int((end - start) * _MICROSECONDS) / _MICROSECONDS,
                label and span_label(label),
            )
            for phase, start, end, label in calls
        ]
    )


def wire_spans(spans: Sequence[Span]) -> list[WireSpan]:
    """Spans for the wire."""
    return [
        (
            span.phase,
            round(span.start * _MICROSECONDS),
            round(span.seconds * _MICROSECONDS),
            span.label,
        )
        for span in spans
    ]


def encode_spans(spans: Sequence[Span]) -> str:
    """The header for the spans: as many of the first ones as it can hold."""
    sent = wire_spans(spans)
    encoded = _ENCODER.encode(sent)
    while len(encoded) > LONGEST_HEADER:
        sent = sent[: len(sent) * 3 // 4]
        encoded = _ENCODER.encode(sent)
    return encoded.decode()


def span_label(name: str) -> str:
    """The label for a name: its start, in characters that a header can hold."""
    label = name[:LONGEST_LABEL]
    if label.isascii() and label.isprintable():
        return label
    ascii_only = label.encode("ascii", "replace").decode()
    return "".join(each if each.isprintable() else "?" for each in ascii_only)


def decode_spans(text: str | msgspec.Raw) -> tuple[Span, ...]:
    """The spans of a header. Raises msgspec.DecodeError."""
    return tuple(
        [
            Span(phase, start / _MICROSECONDS, length / _MICROSECONDS, label)
            for phase, start, length, label in _SPANS.decode(text)[:MOST_SPANS]
        ]
    )
