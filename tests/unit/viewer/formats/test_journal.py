import msgspec
import pytest

from rollgym.records import (
    Completed,
    Failed,
    Failure,
    FailureKind,
    OmitReason,
    Omitted,
    SchemaVersionError,
    Usage,
    encode_attempt,
)
from rollgym.viewer.formats.rows import JOURNAL
from rollgym.viewer.summary import NO_FACTS, EntryStatus, TaskFacts
from tests.builders import failed, record
from tests.unit.viewer.formats.rows import journal, no_facts

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


def test_what_is_no_record_of_ours_is_told() -> None:
    for line in [
        b"",
        b"{}",
        b'{"reward":1}',
        encode_attempt(record())[:-10],
        encode_attempt(record()).replace(b'"v":1', b'"v":99'),
    ]:
        with pytest.raises((msgspec.DecodeError, SchemaVersionError)):
            JOURNAL.summary(line, no_facts)
