"""When calls happened, in a header."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.records import Span
from rollgym.servers.spans import (
    LONGEST_HEADER,
    LONGEST_LABEL,
    MOST_SPANS,
    decode_spans,
    encode_spans,
    spans_of,
    wire_spans,
)
from tests.cases import for_each


def test_a_span_crosses_to_the_microsecond() -> None:
    calls = [("model", 10.25, 11.5000004, ""), ("tools", 11.5, 11.75, "search")]
    header = encode_spans(spans_of(calls, began=10.0))
    assert header == '[["model",250000,1250000,""],["tools",1500000,250000,"search"]]'
    assert decode_spans(header) == (
        Span("model", 0.25, 1.25),
        Span("tools", 1.5, 0.25, "search"),
    )


def test_a_span_without_a_label_says_nothing_of_it() -> None:
    assert msgspec.json.encode(Span("model", 0.25, 1.25)) == (
        b'{"phase":"model","start":0.25,"seconds":1.25}'
    )


@given(st.text(max_size=200))
def test_any_name_of_a_tool_is_safe_in_a_header_and_short(name: str) -> None:
    header = encode_spans(spans_of([("tools", 0.0, 1.0, name)], began=0.0))
    assert header.isascii()
    assert header.isprintable()
    (span,) = decode_spans(header)
    assert len(span.label) <= LONGEST_LABEL
    if name.isascii() and name.isprintable():
        assert span.label == name[:LONGEST_LABEL]


@given(st.lists(st.text(max_size=60), max_size=MOST_SPANS))
def test_a_header_holds_the_first_spans_as_far_as_they_fit(names: list[str]) -> None:
    calls = [("tools", start * 1e4, start * 1e4 + 9e3, name) for start, name in enumerate(names)]
    header = encode_spans(spans_of(calls, began=0.0))
    spans = wire_spans(spans_of(calls, began=0.0))
    assert len(header) <= LONGEST_HEADER
    kept = json.loads(header)
    assert kept == [list(span) for span in spans[: len(kept)]]
    assert len(kept) == len(spans) or len(json.dumps(spans)) > LONGEST_HEADER


def test_more_spans_than_there_may_be_are_left_out() -> None:
    text = json.dumps([["model", 1, 1, ""]] * (MOST_SPANS + 50))
    assert len(decode_spans(text)) == MOST_SPANS


@for_each(
    "text",
    [
        "",
        "soon",
        "{}",
        '[["model"]]',
        '[["model",-1,1,""]]',
        '[["model",1.5,1,""]]',
        f'[["model",{10**400},1,""]]',
        '[[1,1,1,""]]',
    ],
)
def test_what_is_no_list_of_spans_is_refused(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_spans(text)
