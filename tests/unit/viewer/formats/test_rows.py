"""Summaries of rows and of journal lines."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.records import (
    Completed,
    Failed,
    Failure,
    FailureKind,
    OmitReason,
    Omitted,
    Row,
    SchemaVersionError,
    Task,
    Usage,
    encode_attempt,
)
from rollgym.rollouts.output_row import failure_row, input_row, output_row
from rollgym.viewer.formats.rows import JOURNAL, ROLLOUTS
from rollgym.viewer.summary import MOST_FIELDS, NO_FACTS, EntryStatus, TaskFacts
from tests.builders import failed, record
from tests.unit.viewer.formats.rows import journal, no_facts, row

ASKED = {"responses_create_params": {"input": "Is it warm?", "model": "asked"}}
TASK = Task(4, Row.of({**ASKED, "agent_ref": {"name": "weather"}, "difficulty": 2}))
ITEMS = [
    {"type": "reasoning", "summary": []},
    {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
    {"type": "function_call", "call_id": "b", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "a", "output": "24 degrees"},
    {"type": "function_call", "call_id": "c", "name": "ask", "arguments": "{}"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "It is\nwarm.", "annotations": []}],
    },
]
RESPONSE = {
    "model": "scripted",
    "output": ITEMS,
    "usage": {"input_tokens": 1, "output_tokens": 2},
    "incomplete_details": {"reason": "max_output_tokens"},
}


def result(**added: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({"response": RESPONSE, **added}))


def test_a_completed_rollout_as_a_collection_writes_it() -> None:
    outcome = Completed(0.5, success=True, usage=Usage(30, 12), result=result(searches=2))
    found = ROLLOUTS.summary(
        output_row(TASK, record(4, 1, attempt=3, outcome=outcome)).raw, no_facts
    )
    assert (found.status, found.task, found.repeat, found.attempt) == ("completed", 4, 1, 3)
    assert (found.reward, found.success) == (0.5, True)
    assert (found.steps, found.tool_calls, found.tools) == (3, 3, {"look": 2, "ask": 1})
    assert (found.input_tokens, found.output_tokens, found.seconds) == (30, 12, 1.0)
    assert (found.model, found.ending) == ("scripted", "max_output_tokens")
    assert (found.facts.title, found.facts.agent) == ("Is it warm?", "weather")
    assert (found.facts.difficulty, len(found.facts.key)) == (2, 16)
    assert found.detail == "It is warm."
    assert found.fields == {"verification_score": 0.5, "searches": 2}


def test_a_failed_attempt_as_a_collection_writes_it() -> None:
    for final, status in [(True, EntryStatus.FAILED), (False, EntryStatus.RETRIED)]:
        outcome = failed(FailureKind.TIMEOUT, "no answer within 30 s")
        line = failure_row(TASK, record(4, 1, attempt=2, final=final, outcome=outcome)).raw
        facts = TaskFacts(key="k", title="Is it warm?")
        found = ROLLOUTS.summary(line, {4: facts}.get)
        assert (found.status, found.task, found.repeat, found.attempt) == (status, 4, 1, 2)
        assert (found.kind, found.cause) == ("timeout", "no answer within N s")
        assert found.detail == "no answer within 30 s"
        assert (found.reward, found.success, found.steps, found.tool_calls) == (None,) * 4
        assert (found.started, found.seconds) == (1000.0, 1.0)
        assert found.facts == facts


def test_an_input_was_not_run() -> None:
    found = ROLLOUTS.summary(input_row(TASK, 0).with_fields({"_ng_task_index": 4}).raw, no_facts)
    assert (found.status, found.task, found.repeat) == (EntryStatus.INPUT, 4, 0)
    assert (found.steps, found.tool_calls, found.detail) == (None, None, "")
    assert found.facts.title == "Is it warm?"


def test_without_a_transcript_the_items_of_the_response_are_the_conversation() -> None:
    found = row(reward=1, response=RESPONSE)
    assert (found.steps, found.tool_calls, found.tools) == (3, 3, {"look": 2, "ask": 1})
    assert (found.input_tokens, found.output_tokens) == (1, 2)
    assert found.detail == "It is warm."
    assert (found.task, found.repeat, found.success) == (None, None, True)


def test_a_conversation_of_messages_is_one() -> None:
    messages = [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "tool", "content": "24"},
        {"role": "assistant", "content": [{"type": "text", "text": "Warm."}]},
    ]
    found = row(messages=messages)
    assert (found.status, found.reward, found.success) == (EntryStatus.COMPLETED, None, None)
    assert (found.steps, found.tools, found.detail) == (2, {"look": 1}, "Warm.")
    assert found.facts.title == "Hi"
    assert row(messages=messages[:1]).status is EntryStatus.INPUT


def test_a_text_by_itself_is_an_answer() -> None:
    for name in ["output", "response"]:
        found = row(prompt="Hi", **{name: "Hello."})
        assert (found.status, found.steps, found.detail) == (EntryStatus.COMPLETED, 1, "Hello.")
        assert (found.reward, found.success) == (None, None)


def test_success_is_the_verifiers_word_or_a_full_reward() -> None:
    cases: list[tuple[dict[str, object], float | None, bool | None]] = [
        ({"reward": 1}, 1.0, True),
        ({"reward": 0.99}, 0.99, False),
        ({"reward": 0.0, "success": True}, 0.0, True),
        ({"success": False}, None, False),
        ({"reward": "1.0", "output": []}, None, None),
        ({"reward": True, "success": 1, "output": []}, None, None),
    ]
    for fields, reward, success in cases:
        found = row(**fields)
        assert (found.status, found.reward, found.success) == (
            EntryStatus.COMPLETED,
            reward,
            success,
        )


def test_a_failure_may_be_told_in_few_words() -> None:
    assert row(failure="it broke", reward=1.0).kind == "unknown"
    found = row(_ng_failure_class="tool", _ng_task_index=1)
    assert (found.status, found.kind, found.cause, found.task) == (
        EntryStatus.FAILED,
        "tool",
        "",
        1,
    )
    assert row(failure={"kind": "agent", "detail": "x"}).kind == "agent"
    assert row(failure=None, reward=1).status is EntryStatus.COMPLETED


def test_short_values_are_fields_and_the_verifiers_come_before_the_tasks() -> None:
    many = {f"n{number}": number for number in range(20)}
    found = row(reward=1, metadata={"note": "x", "seconds": 3}, many=many, **many, judge="ok")
    assert len(found.fields) == MOST_FIELDS
    assert found.fields["judge"] == "ok"
    assert "n0" not in found.fields
    assert row(reward=1, a=None, b=[1], c={"d": 1}, e="x" * 61, f="x" * 60, g=True).fields == {
        "f": "x" * 60,
        "g": True,
    }


def test_an_item_of_an_odd_kind_is_passed_over() -> None:
    odd = [3, None, {"role": 5}, {"role": "assistant", "tool_calls": "none"}, {"role": "assistant"}]
    found = row(output=[*odd, {"role": "assistant", "content": "Done."}])
    assert (found.steps, found.detail) == (2, "Done.")


def test_the_last_words_are_the_last_that_there_are() -> None:
    call = {"role": "assistant", "tool_calls": [{"function": {}}], "content": " "}
    found = row(output=[{"role": "assistant", "content": "First."}, call])
    assert (found.detail, found.tools) == ("First.", {"(no name)": 1})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ("role", "content", "type", "name", "output", "usage", "text", "detail")
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_NAMES = (
    "responses_create_params", "agent_ref", "_ng_task_index", "_ng_rollout_index", "output",
    "reward", "success", "metadata", "response", "failure", "_ng_failure_class", "final",
    "attempt", "messages", "task", "task_id", "question", "difficulty", "domain", "other",
)  # fmt: skip


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(_NAMES), _JSON))
def test_any_object_has_a_summary(fields: dict[str, Any]) -> None:
    try:
        line = msgspec.json.encode(fields)
    except OverflowError:
        return
    found = ROLLOUTS.summary(line, no_facts)
    assert found.status is not EntryStatus.UNREADABLE
    assert len(found.detail) <= 300
    assert all(calls > 0 for calls in found.tools.values())


def test_what_is_no_object_is_no_row() -> None:
    for line in [b"", b"[]", b"3", b"{", b'{"a":1}x', b"\xff"]:
        with pytest.raises(msgspec.DecodeError):
            ROLLOUTS.summary(line, no_facts)


FACTS = TaskFacts(key="k", title="t", difficulty=3)


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def test_a_completed_attempt_of_an_agent() -> None:
    response = {
        "model": "m",
        "output": [
            {"type": "function_call", "name": "look"},
            {"type": "message", "role": "assistant", "content": "Six."},
        ],
    }
    outcome = Completed(
        1.0,
        measures={"tool_calls": 1.0, "response_length": 9.0},
        usage=Usage(5, 7),
        result=raw({"response": response, "searches": 2, "reward": 1.0}),
    )
    found = journal(record(3, 2, attempt=2, outcome=outcome), {3: FACTS}.get)
    assert (found.status, found.task, found.repeat, found.attempt) == ("completed", 3, 2, 2)
    assert (found.reward, found.success, found.model) == (1.0, True, "m")
    assert (found.steps, found.tool_calls, found.tools) == (2, 1, {"look": 1})
    assert (found.input_tokens, found.output_tokens) == (5, 7)
    assert (found.started, found.seconds, found.detail) == (1000.0, 1.0, "Six.")
    assert found.fields == {"response_length": 9.0, "searches": 2}
    assert found.facts == FACTS


def test_a_result_with_an_output_and_one_without_anything() -> None:
    output = [{"role": "assistant", "content": "Answer: 3"}]
    found = journal(record(outcome=Completed(0.0, result=raw({"question": "?", "output": output}))))
    assert (found.steps, found.detail, found.success) == (1, "Answer: 3", False)
    assert (found.facts.title, found.fields) == ("?", {})
    found = journal(record(outcome=Completed(0.0)))
    assert (found.steps, found.tool_calls, found.detail) == (None, None, "")
    assert (found.input_tokens, found.output_tokens, found.facts) == (None, None, NO_FACTS)


def test_a_result_of_another_shape_is_no_reason_to_pass_it_over() -> None:
    for result in [[1], "text", 3, None, {"output": 3, "response": [2]}]:
        found = journal(record(outcome=Completed(1.0, measures={"steps": 4.0}, result=raw(result))))
        assert (found.status, found.steps, found.detail) == (EntryStatus.COMPLETED, 4, "")


def test_a_failure_has_its_kind_and_cause() -> None:
    failure = Failure(FailureKind.MODEL_UNAVAILABLE, "HTTP 503 from http://10.0.0.1:80/v1")
    found = journal(record(outcome=Failed(failure)))
    assert (found.status, found.kind) == (EntryStatus.FAILED, "model_unavailable")
    assert (found.cause, found.detail) == ("HTTP 503 from …", failure.detail)
    assert (found.reward, found.success, found.steps) == (None, None, None)


def test_an_attempt_that_was_not_the_last_was_tried_again() -> None:
    assert journal(record(final=False, outcome=failed())).status is EntryStatus.RETRIED


def test_an_omitted_rollout_says_why() -> None:
    found = journal(record(outcome=Omitted(OmitReason.STRAGGLER)))
    assert (found.status, found.ending, found.kind) == (EntryStatus.OMITTED, "straggler", "")
    assert found.detail == "straggler"


def test_what_is_no_record_of_ours_is_reported() -> None:
    for line in [
        b"",
        b"{}",
        b'{"reward":1}',
        encode_attempt(record())[:-10],
        encode_attempt(record()).replace(b'"v":1', b'"v":99'),
    ]:
        with pytest.raises((msgspec.DecodeError, SchemaVersionError)):
            JOURNAL.summary(line, no_facts)
