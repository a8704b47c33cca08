import msgspec
import pytest

from rollgym.records import (
    Attempt,
    Cause,
    Completed,
    Failed,
    Failure,
    FailureKind,
    OmitReason,
    Omitted,
    Row,
    Span,
    Task,
    Usage,
    encode_attempt,
)
from rollgym.rollouts.output_row import failure_row, output_row
from rollgym.viewer.documents.journal_document import JournalDocument
from tests.builders import record
from tests.unit.viewer.documents.records import DONE, Surroundings, texts

INPUT = Row.of({"responses_create_params": {"input": "What is it?"}, "expected": "lamp"})
KNOWN = Surroundings({0: INPUT})
ITEMS = [
    {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "a lamp"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Lamp."}]},
]


def result(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def opened(attempt: Attempt, context: Surroundings = KNOWN) -> JournalDocument:
    return JournalDocument(encode_attempt(attempt), context, DONE)


def answered() -> Attempt:
    given = result({"response": {"id": "r", "output": ITEMS}, "judge_said": "yes", "reward": 1.0})
    outcome = Completed(1.0, result=given, usage=Usage(5, 6), phases={"model": 0.5})
    return record(outcome=outcome)


def test_a_completed_rollout_is_shown_with_its_task() -> None:
    document = opened(answered())
    view = document.view()
    assert [texts(turn) for turn in view.prompt] == [["What is it?"]]
    assert view.turns == 3
    call, answer, said = document.turns(0, 10)
    assert (call.calls[0].name, answer.tool, texts(said)) == ("look", "look", ["Lamp."])
    shown = {each.title: [field.name for field in each.fields] for each in view.sections}
    assert shown["Verifier"] == ["reward", "success", "judge_said"]
    assert shown["Task"] == ["expected"]
    assert view.usage == {"input_tokens": 5, "output_tokens": 6}
    assert view.timeline is not None
    assert view.timeline.totals == {"model": 0.5}


def test_its_row_is_the_one_that_the_file_of_rollouts_has() -> None:
    attempt = answered()
    document = opened(attempt)
    assert document.row() == output_row(Task(0, INPUT), attempt).raw == document.raw("")
    assert msgspec.json.decode(document.raw("/output/1/content")) == "a lamp"
    assert msgspec.json.decode(document.raw("/response/output/1/output")) == "a lamp"
    with pytest.raises(KeyError):
        document.raw("/nothing")


def test_without_its_input_a_rollout_is_shown_as_far_as_it_is_known() -> None:
    document = opened(answered(), Surroundings())
    assert document.view().prompt == ()
    assert document.view().turns == 3
    assert msgspec.json.decode(document.row())["reward"] == 1.0


def test_a_result_with_an_output_of_its_own_keeps_it() -> None:
    said = {"question": "?", "output": [{"role": "assistant", "content": "Answer: 3"}]}
    document = opened(record(outcome=Completed(0.0, result=result(said))))
    [turn] = document.turns(0, 10)
    assert (texts(turn), turn.path) == (["Answer: 3"], "/output/0")
    row = msgspec.json.decode(document.row())
    assert (row["output"], row["question"], row["success"]) == (said["output"], "?", False)


def test_a_failed_attempt_shows_why_and_what_there_was() -> None:
    failure = Failure(FailureKind.TOOL, "broke", True, causes=(Cause("OSError", "gone"),))
    partial = result({"response": {"output": ITEMS[:2]}})
    spans = (Span("model", 0.0, 0.25),)
    attempt = record(outcome=Failed(failure, result=partial, spans=spans), final=False)
    document = opened(attempt)
    view = document.view()
    assert view.failure is not None
    assert (view.failure.kind, view.failure.causes) == ("tool", (("OSError", "gone"),))
    assert view.turns == 2
    assert view.timeline is not None
    assert view.timeline.exact
    assert document.row() == failure_row(Task(0, INPUT), attempt).raw


def test_an_omitted_rollout_says_why() -> None:
    document = opened(record(outcome=Omitted(OmitReason.STRAGGLER, "too slow")))
    [told] = [each for each in document.view().sections if each.title == "Metadata"]
    values = {field.name: field.value.text for field in told.fields}
    assert (values["omitted"], values["omitted_because"]) == ("straggler", "too slow")
    assert msgspec.json.decode(document.row())["expected"] == "lamp"


def test_a_result_of_any_shape_is_shown() -> None:
    for value in [5, "text", [1], None, {"response": 5}, {"response": {}}]:
        document = opened(record(outcome=Completed(1.0, result=result(value))))
        assert document.view().sections
        assert document.turns(0, 10) == []
        assert msgspec.json.decode(document.row())["reward"] == 1.0


def test_what_is_no_record_is_a_value_error() -> None:
    for line in [b"", b"{}", b"[", b'{"v":99}', b'{"a":' + b"[" * 50_000]:
        with pytest.raises(ValueError):  # noqa: PT011 - of whatever words
            JournalDocument(line, KNOWN, DONE)
