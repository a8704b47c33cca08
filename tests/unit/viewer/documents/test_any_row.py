"""Rows of any shape: whatever is in them is shown, and bounded."""

import json
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.viewer.documents.row_document import RowDocument
from rollgym.viewer.offline.page import offline_page
from rollgym.viewer.view import TEXT_LIMIT
from tests.unit.viewer.documents.records import DONE, PIXEL, Surroundings

NAMES = [
    "arguments",
    "call_id",
    "causes",
    "content",
    "detail",
    "failure",
    "function",
    "id",
    "image_url",
    "incomplete_details",
    "input",
    "instructions",
    "item",
    "kind",
    "label",
    "messages",
    "metadata",
    "model",
    "name",
    "output",
    "phase",
    "reasoning",
    "reasoning_content",
    "refusal",
    "response",
    "responses_create_params",
    "reward",
    "role",
    "seconds",
    "spans",
    "start",
    "success",
    "summary",
    "text",
    "timings",
    "tool_call_id",
    "tool_calls",
    "tools",
    "traceback",
    "type",
    "url",
    "usage",
    "_ng_task_index",
    "_ng_failure_class",
]
WORDS = (
    "assistant",
    "tool",
    "reasoning",
    "function_call",
    "function_call_output",
    "<think>a</think>b",
    "https://elsewhere.example",
    PIXEL,
    "data:image/svg+xml,<svg/>",
    '{"a": [1, 2]}',
    "</script><script>alert(1)</script>",
    "\ud800",
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from((10**30, -(10**400), 2**64)),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(WORDS),
)
names = st.one_of(st.sampled_from(NAMES), st.text(max_size=4))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=5)),
    max_leaves=25,
)
rows = st.dictionaries(names, values, max_size=8)


def look_at(record: bytes) -> None:
    """Everything that a page asks of a document."""
    document = RowDocument(record, Surroundings(), DONE)
    view = document.view()
    sent = document.turns(0, 100)
    assert len(sent) == view.turns
    assert len(msgspec.json.encode((view, sent))) < 50 * TEXT_LIMIT + 10 * len(record)
    for turn in (*view.prompt, *sent):
        document.raw(turn.path)
        for part in turn.parts:
            if part.path:
                document.raw(part.path)
    for section in view.sections:
        for field in section.fields:
            document.raw(field.value.path)
    document.find("a")
    assert b"".join(offline_page(document, name="x", picture=lambda _: None))


@settings(max_examples=40)
@given(rows)
def test_a_row_of_any_shape_is_shown_or_refused(row: Mapping[str, object]) -> None:
    record = json.dumps(row).encode()
    try:
        look_at(record)
    except ValueError:
        # What no reader of JSON takes: not a number, half a character.
        with pytest.raises(ValueError):  # noqa: PT011 - of whatever words
            msgspec.json.decode(record, type=dict[str, msgspec.Raw])


def test_a_deep_row_is_shown_or_refused() -> None:
    for field in ["output", "messages", "metadata", "failure", "x"]:
        for depth in [10, 300, 900, 960, 990]:
            for opening, closing in ((b"[", b"]"), (b'{"item":', b"}"), (b'{"content":[', b"]}")):
                value = opening * depth + b"1" + closing * depth
                record = b'{"%b": %b, "response": {"output": %b}}' % (field.encode(), value, value)
                try:
                    look_at(record)
                except ValueError as error:
                    assert "deep" in str(error)  # noqa: PT017 - it may as well be shown
