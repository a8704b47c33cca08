"""What an agent's answer says of a rollout."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rollgym.records import (
    Completed,
    Failed,
    Failure,
    FailureKind,
    OmitReason,
    Omitted,
    Outcome,
    Row,
    Span,
    Task,
    Usage,
    VerifierError,
    encode_attempt,
)
from rollgym.records.attempt import decode_attempt
from rollgym.rollouts.output_row import failure_row, output_row
from rollgym.rollouts.worker import outcome_of
from rollgym.servers.exchange import Answer
from rollgym.servers.report import PHASES_HEADER
from rollgym.servers.spans import SPANS_HEADER
from tests.builders import record
from tests.unit.rollouts.strategies import object_text, spaces, values

SENT = Row.of({"responses_create_params": {"input": "hi"}, "expected": 1})
MARKS = ("reward", "success", "response", "metadata", "verification_score", "output")
NG_MARKS = ("_ng_failure_class", "_ng_failure_terminal", "_ng_no_persist", "_ng_task_index")


def outcome(answer: Any, sent: Row = SENT, threshold: float = 1.0, **headers: str) -> Outcome:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return outcome_of(sent, Answer(200, body, headers=headers), threshold)


def completed(answer: Any, **options: Any) -> Completed:
    found = outcome(answer, **options)
    assert isinstance(found, Completed)
    return found


# Completed.


def test_a_reward_and_what_else_the_verifier_says_make_a_completed_rollout() -> None:
    usage = {"input_tokens": 3, "output_tokens": 4}
    calls = [{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}]
    answer = {
        "expected": 1,
        "reward": 0.25,
        "seen": "x",
        "response": {"output": calls, "usage": usage},
    }
    headers = {PHASES_HEADER: '{"model":1.5}', SPANS_HEADER: '[["model",250000,1500000,""]]'}
    found = completed(answer, **headers)
    assert (found.reward, found.success) == (0.25, False)
    assert found.measures == {"tool_calls": 1.0, "response_length": 4.0}
    assert (found.usage.input_tokens, found.usage.output_tokens) == (3, 4)
    assert found.phases == {"model": 1.5}
    assert found.spans == (Span("model", 0.25, 1.5),)
    assert json.loads(bytes(found.result)) == {
        key: answer[key] for key in ("reward", "seen", "response")
    }


def test_the_threshold_decides_where_the_verifier_says_nothing_of_success() -> None:
    cases: list[tuple[float, float, bool]] = [
        (1.0, 1.0, True),
        (0.99, 1.0, False),
        (0.5, 0.5, True),
        (0.4, 0.5, False),
        (1, 1.0, True),
    ]
    for reward, threshold, success in cases:
        assert completed({"reward": reward}, threshold=threshold).success is success
        assert (
            completed({"reward": reward, "success": "yes"}, threshold=threshold).success is success
        )


def test_the_verifiers_word_on_success_counts_more_than_the_reward() -> None:
    assert completed({"reward": 0.0, "success": True}).success is True
    assert completed({"reward": 1.0, "success": False}).success is False


def test_a_success_that_the_input_had_is_not_the_verifiers_word() -> None:
    sent = SENT.with_fields({"success": True})
    assert completed({"reward": 0.0, "success": True}, sent=sent).success is False
    assert completed({"reward": 1.0, "success": False}, sent=sent).success is False


def test_an_answer_without_a_response_still_has_its_reward() -> None:
    assert completed({"reward": 1.0}).measures == {"tool_calls": 0.0}


def test_phases_and_spans_that_cannot_be_read_are_none() -> None:
    found = completed({"reward": 1.0}, **{PHASES_HEADER: "soon", SPANS_HEADER: "[[]]"})
    assert (found.phases, found.spans) == ({}, ())


def test_an_answer_laid_out_over_lines_is_kept_on_one() -> None:
    body = b'{\r\n  "reward": 1.0,\r\n  "detail": {\r\n    "a": "\\r\\n"\r\n  }\r\n}\r\n'
    found = completed(body)
    written = output_row(Task(0, SENT), decode_attempt(encode_attempt(record(outcome=found))))
    assert b"\n" not in written.raw
    assert b"\r" not in written.raw
    assert json.loads(written.raw)["detail"] == {"a": "\r\n"}


# No reward.


def test_whatever_is_no_reward_is_a_failure_of_the_verifier() -> None:
    cases: list[Any] = [
        {},
        {"reward": None},
        {"reward": True},
        {"reward": "1.0"},
        {"reward": [1]},
        b'{"reward": 1e400}',
        b'{"reward": -1e400}',
        b'{"reward": %d}' % 10**400,
        b'{"reward": NaN}',
        b"[]",
        b"",
        b"<html>",
        b'{"reward": 1.0',
        b'{"a":"\xff","reward":1}',
        {"reward": 1.0, "response": "text"},
        {"reward": 1.0, "response": [1]},
        b'{"reward": 1.0, "response": {"x": 1e400}}',
        b'{"reward": 1.0, "_ng_no_persist": 1e400}',
        b'{"reward": 1.0, "deep": %b%b}' % (b"[" * 100_000, b"]" * 100_000),
    ]
    for answer in cases:
        try:
            found = outcome(answer)
        except VerifierError as error:
            found = Failed(Failure.of(error))
        assert isinstance(found, Failed)
        assert found.failure.kind is FailureKind.VERIFIER
        assert len(found.failure.detail) < 500


def test_a_row_without_a_reward_keeps_its_response_and_tokens() -> None:
    """An agent of others answers with what its verifier said, whatever that was."""
    response = {"output": [], "usage": {"input_tokens": 3, "output_tokens": 2}}
    found = outcome({"reward": None, "response": response, "seen": 2})
    assert isinstance(found, Failed)
    kept = {"response": response, "seen": 2, "unverified": True}
    assert json.loads(bytes(found.result)) == kept
    assert found.usage == Usage(3, 2)


def test_a_mark_of_failure_is_a_failure_whatever_the_reward_beside_it() -> None:
    answer = {"reward": 1.0, "success": True, "seen": 2, "_ng_failure_class": "sandbox_down"}
    found = outcome(answer)
    assert isinstance(found, Failed)
    assert found.failure.kind is FailureKind.VERIFIER
    assert found.failure.retryable
    assert "sandbox_down" in found.failure.detail
    assert json.loads(bytes(found.result)) == {"seen": 2, "_ng_failure_class": "sandbox_down"}


def test_a_marked_failure_keeps_where_its_time_went() -> None:
    headers: Any = {PHASES_HEADER: '{"tools":1.5}', SPANS_HEADER: '[["tools",0,1500000,"saw"]]'}
    found = outcome({"_ng_failure_class": "sandbox_down"}, **headers)
    assert (found.phases, found.spans) == ({"tools": 1.5}, (Span("tools", 0.0, 1.5, "saw"),))


def test_a_mark_that_names_a_kind_of_ours_has_that_kind() -> None:
    found = outcome({"_ng_failure_class": "model_context", "_ng_failure_terminal": True})
    assert isinstance(found, Failed)
    assert (found.failure.kind, found.failure.retryable) == (FailureKind.MODEL_CONTEXT, False)


def test_a_terminal_mark_alone_is_a_failure_too() -> None:
    found = outcome({"reward": 1.0, "_ng_failure_terminal": True})
    assert isinstance(found, Failed)
    assert not found.failure.retryable


def test_marks_that_say_nothing_are_none() -> None:
    cases: list[object] = [None, "", False, 0]
    for nothing in cases:
        marks = dict.fromkeys(
            ("_ng_failure_class", "_ng_failure_terminal", "_ng_no_persist"), nothing
        )
        assert completed({"reward": 1.0, **marks}).reward == 1.0


def test_a_row_that_is_not_to_be_kept_is_omitted() -> None:
    found = outcome({"reward": 1.0, "_ng_no_persist": True, "_ng_failure_class": "x"})
    assert found == Omitted(OmitReason.SKIPPED, "the verifier asked for it with _ng_no_persist")


def test_a_name_of_any_length_is_a_detail_of_bounded_length() -> None:
    found = outcome({"_ng_failure_class": "x" * 1_000_000})
    assert isinstance(found, Failed)
    assert len(found.failure.detail) < 5_000


# Whatever it is, it can be kept and shown.


@given(
    st.dictionaries(st.sampled_from([*MARKS, *NG_MARKS, "expected", "other"]), values, max_size=6),
    spaces,
)
def test_what_has_an_outcome_can_be_recorded_and_shown(fields: dict[str, str], space: str) -> None:
    body = object_text(list(fields.items()), space).encode()
    try:
        found = outcome(body)
    except VerifierError:
        return
    kept = decode_attempt(encode_attempt(record(outcome=found)))
    task = Task(0, SENT)
    if isinstance(found, Completed):
        row = json.loads(output_row(task, kept).raw)
        assert row["expected"] == json.loads(fields.get("expected", "1"))
        assert row["reward"] == found.reward
    elif isinstance(found, Failed):
        json.loads(failure_row(task, kept).raw)


@given(values)
def test_any_response_that_is_taken_can_be_shown(text: str) -> None:
    items = msgspec.Raw(text.encode())
    body = msgspec.json.encode({"reward": 1, "response": {"output": items, "usage": items}})
    try:
        found = outcome(body)
    except VerifierError:
        return
    if isinstance(found, Completed):
        output_row(Task(0, SENT), decode_attempt(encode_attempt(record(outcome=found))))
