"""What stands in the rows of rollouts and of failed attempts."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.records import (
    Completed,
    Failed,
    Failure,
    FailureKind,
    Row,
    Span,
    Task,
    Usage,
)
from rollgym.rollouts.output_row import added_fields, failure_row, input_row, output_row
from rollgym.rollouts.rows import (
    STORED_ROLLOUTS,
    RepeatSeeds,
    StoredRollout,
    own_metadata,
    own_output,
    without_results,
)
from tests.builders import failed, record
from tests.unit.rollouts.strategies import names, objects, values

OURS = {"output", "reward", "success", "metadata", "_ng_task_index", "_ng_rollout_index"}
OWN = {"responses_create_params", "agent_ref", "_ng_task_index", "_ng_rollout_index"}
PLAIN = '{"responses_create_params":{"input": "hi",  "temperature": 0.70}}'
RESPONSE = {
    "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "1", "name": "search_document", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "Found: X"},
        {"type": "message", "role": "assistant", "content": "It is X."},
    ],
    "usage": {"input_tokens": 7, "output_tokens": 5},
}
SPANS = (Span("model", 0.125, 0.25), Span("tools", 0.375, 0.5, "search_document"))


def task_of(text: str, index: int = 3, repeats: int = 2) -> Task:
    return Task(index, Row.parse(text.encode()), repeats)


def task_with(field: str) -> Task:
    return task_of(f"{PLAIN[:-1]},{field}}}")


def completed(task: Task, repeat: int = 0, **added: Any) -> Row:
    result = msgspec.Raw(msgspec.json.encode({"response": RESPONSE, **added}))
    outcome = Completed(
        0.5,
        success=False,
        usage=Usage(7, 5),
        phases={"model": 0.25},
        spans=SPANS,
        result=result,
    )
    return output_row(task, record(task.index, repeat, attempt=2, outcome=outcome))


# The row of a rollout.


def test_a_row_has_everything_that_is_promised_of_it() -> None:
    row = msgspec.json.decode(completed(task_of(PLAIN), repeat=1, matched=["x"]).raw)
    assert row.pop("output") == [
        {
            "role": "assistant",
            "reasoning": "hm",
            "tool_calls": [
                {
                    "id": "1",
                    "type": "function",
                    "function": {"name": "search_document", "arguments": "{}"},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "Found: X"},
        {"role": "assistant", "content": "It is X."},
    ]
    assert row.pop("metadata") == {
        "reasoning_steps": 2,
        "tool_calls_made": 1,
        "verification_score": 0.5,
        "attempts": 2,
        "started": 1000.0,
        "seconds": 1.0,
        "timings": {"model": 0.25},
        "spans": [
            {"phase": "model", "start": 0.125, "seconds": 0.25},
            {"phase": "tools", "start": 0.375, "seconds": 0.5, "label": "search_document"},
        ],
        "usage": {
            "input_tokens": 7,
            "output_tokens": 5,
            "cached_tokens": 0,
            "reasoning_tokens": 0,
        },
    }
    assert row == {
        "responses_create_params": {"input": "hi", "temperature": 0.7},
        "response": RESPONSE,
        "reward": 0.5,
        "success": False,
        "matched": ["x"],
        "_ng_task_index": 3,
        "_ng_rollout_index": 1,
    }


def test_the_score_is_the_verifiers_where_it_gives_one() -> None:
    task = task_of(PLAIN)
    row = msgspec.json.decode(completed(task, verification_score=0.95).raw)
    assert row["metadata"]["verification_score"] == row["verification_score"] == 0.95
    for score in (True, "high", None):
        row = msgspec.json.decode(completed(task, verification_score=score).raw)
        assert row["metadata"]["verification_score"] == 0.5


def test_metadata_of_the_row_and_of_the_verifier_stay_beside_ours() -> None:
    task = task_with('"metadata":{"source":"book","seconds":9,"page":1}')
    row = msgspec.json.decode(completed(task, metadata={"page": 2}).raw)
    metadata = row["metadata"]
    assert (metadata["source"], metadata["page"], metadata["seconds"]) == ("book", 2, 9)
    assert (metadata["rollgym"], metadata["reasoning_steps"]) == ({"seconds": 1.0}, 2)


@pytest.mark.parametrize("theirs", ['"text"', '{"rollgym":1}'])
def test_metadata_that_ours_cannot_join_is_kept_and_ours_is_beside_it(theirs: str) -> None:
    row = completed(task_with(f'"metadata":{theirs}'))
    assert bytes(row.fields["metadata"]).decode() == theirs
    assert bytes(own_metadata(row.fields)["reasoning_steps"]) == b"2"


@pytest.mark.parametrize("written_by", ["input", "verifier"])
def test_an_output_of_the_input_or_of_the_verifier_is_kept_and_ours_moves_aside(
    written_by: str,
) -> None:
    if written_by == "verifier":
        row = completed(task_of(PLAIN), output="theirs")
    else:
        row = completed(task_with('"output":"theirs"'))
    assert row.get("output", str) == "theirs"
    transcript = msgspec.json.decode(own_output(row.fields) or b"")
    assert transcript[-1] == {"role": "assistant", "content": "It is X."}
    assert without_results(row).get("output", str) == "theirs"


def test_a_row_without_its_results_has_the_metadata_that_was_given() -> None:
    given = {"source": "book", "seconds": 9}
    row = without_results(completed(task_with(f'"metadata":{json.dumps(given)}')))
    assert row.get("metadata", dict) == given
    assert "metadata" not in without_results(completed(task_of(PLAIN))).fields


def test_what_the_agent_notes_in_its_response_stands_in_the_metadata() -> None:
    notes = {"stopped_by": "max_steps", "tool_errors": "2", "tool_calls_rejected": "many"}
    row = completed(task_of(PLAIN), response={**RESPONSE, "metadata": notes})
    metadata = row.get("metadata", dict[str, Any], {})
    assert (metadata["stopped_by"], metadata["tool_errors"]) == ("max_steps", 2)
    assert "tool_calls_rejected" not in metadata


def test_a_seed_joins_the_extra_parameters_of_the_row() -> None:
    body = json.dumps(json.dumps({"top_k": 3}))
    text = (
        f'{{"responses_create_params":{{"input":"hi","metadata":{{"k":"v","extra_body":{body}}}}}}}'
    )
    sent = input_row(task_of(text), 1, RepeatSeeds(40))
    params = msgspec.json.decode(sent.raw)["responses_create_params"]
    assert params.keys() == {"input", "metadata"}
    assert params["metadata"]["k"] == "v"
    assert json.loads(params["metadata"]["extra_body"]) == {"top_k": 3, "seed": 41}


def test_a_run_of_an_earlier_version_keeps_its_seeds_among_the_parameters() -> None:
    task = task_of(PLAIN)
    assert input_row(task, 1).raw.endswith(b'"_ng_rollout_index":1}')
    for repeat in range(2):
        sent = input_row(task, repeat, RepeatSeeds(40, in_extra_body=False))
        assert msgspec.json.decode(sent.raw)["responses_create_params"]["seed"] == 40 + repeat
        outcome = Completed(1.0, result=msgspec.Raw(b"{}"))
        row = output_row(
            task, record(3, repeat, outcome=outcome), RepeatSeeds(40, in_extra_body=False)
        )
        assert row.fields["responses_create_params"] == sent.fields["responses_create_params"]


@given(objects(names), objects(names))
def test_all_bytes_of_the_input_stay_unless_the_row_or_its_verifier_owns_the_field(
    given_text: str, added_text: str
) -> None:
    given_row = Row.parse(given_text.encode()).with_fields(
        {"responses_create_params": msgspec.Raw(b'{"input" : "hi"}')}
    )
    added = Row.parse(added_text.encode())
    attempt = record(5, 1, outcome=Completed(1.0, result=msgspec.Raw(added.raw)))
    fields = output_row(Task(5, given_row, 2), attempt).fields
    for name, raw in given_row.fields.items():
        if name not in OURS:
            assert fields[name] == added.fields.get(name, raw)
    for name, raw in added.fields.items():
        if name not in OURS:
            assert fields[name] == raw
    assert fields.keys() == given_row.fields.keys() | added.fields.keys() | OURS


# What a verifier said that the input did not.


@given(objects(names), st.dictionaries(names, values, max_size=4))
def test_what_was_sent_and_what_is_kept_make_up_what_was_answered(
    sent_text: str, changes: dict[str, str]
) -> None:
    sent = Row.parse(sent_text.encode())
    raws = {name: msgspec.Raw(text.encode()) for name, text in changes.items()}
    answered = sent.with_fields(raws)
    kept = added_fields(sent, answered)
    assert kept.keys() <= raws.keys()
    for name in answered.fields.keys() - kept.keys() - OWN:
        assert json.loads(bytes(sent.fields[name])) == json.loads(bytes(answered.fields[name]))


def test_the_same_value_in_other_words_is_not_kept_twice() -> None:
    cases: list[tuple[str, str, bool]] = [
        ("1", "1.0", False),
        ('{"a": 1, "b": [2]}', '{"b":[2.0],"a":1}', False),
        ('"é"', '"\\u00e9"', False),
        ("1e400", "1e400", False),
        ("1", "true", True),
        ("[0]", "[false]", True),
        ("null", "false", True),
        ("1", "2", True),
        ("[1]", "[1,1]", True),
        ("1e400", "1e401", True),
        ("9007199254740993", "9007199254740992.0", True),
    ]
    for sent, answered, kept in cases:
        rows = [Row.parse(b'{"x":%b}' % text.encode()) for text in (sent, answered)]
        assert ("x" in added_fields(*rows)) is kept


def test_what_the_task_was_is_not_the_verifiers_to_say() -> None:
    answered = Row.of(dict.fromkeys(OWN, "changed") | {"said": 1})
    assert added_fields(Row.of({}), answered).keys() == {"said"}


# The row of a failed attempt.


def test_a_failure_says_which_attempt_failed_and_why() -> None:
    failure = Failure(FailureKind.TOOL, "it broke", retryable=True)
    result = msgspec.Raw(b'{"response":{"output":[]},"attempt":99,"failure":"none"}')
    task = task_with('"agent_ref":{"name":"a"}')
    attempt = record(3, 1, attempt=2, final=False, outcome=Failed(failure, result=result))
    assert msgspec.json.decode(failure_row(task, attempt).raw) == {
        "_ng_task_index": 3,
        "_ng_rollout_index": 1,
        "attempt": 2,
        "final": False,
        "agent_ref": {"name": "a"},
        "_ng_failure_class": "tool",
        "_ng_failure_terminal": False,
        "failure": {"kind": "tool", "detail": "it broke", "retryable": True},
        "started": 1000.0,
        "seconds": 1.0,
        "response": {"output": []},
    }


def test_a_failure_says_where_its_time_went_beside_what_the_environment_says() -> None:
    result = msgspec.Raw(b'{"metadata":{"room":7,"timings":"none"}}')
    failure = Failure(FailureKind.TOOL, "it broke")
    outcome = Failed(failure, phases={"tools": 0.5}, spans=SPANS[1:], result=result)
    row = msgspec.json.decode(failure_row(task_of(PLAIN), record(3, outcome=outcome)).raw)
    assert row["metadata"] == {
        "room": 7,
        "timings": "none",
        "rollgym": {"timings": {"tools": 0.5}},
        "spans": [{"phase": "tools", "start": 0.375, "seconds": 0.5, "label": "search_document"}],
    }


def test_a_failure_goes_by_the_name_that_the_environment_gave_it() -> None:
    failure = Failure(FailureKind.VERIFIER, "marked")
    result = msgspec.Raw(b'{"_ng_failure_class":"sandbox_down","_ng_failure_terminal":1}')
    row = failure_row(task_of(PLAIN), record(3, outcome=Failed(failure, result=result)))
    decoded = msgspec.json.decode(row.raw)
    assert decoded["_ng_failure_class"] == "sandbox_down"
    assert decoded["_ng_failure_terminal"] is True
    assert "agent_ref" not in decoded


def test_a_stored_rollout_is_shown_by_the_number_that_it_always_had() -> None:
    stored = [StoredRollout(2), StoredRollout(5)]
    row = task_of(PLAIN).row.with_fields({STORED_ROLLOUTS: stored})
    task, result = Task(3, row, 2), msgspec.Raw(b"{}")
    attempts = [record(3, 1, outcome=each) for each in (Completed(1.0, result=result), failed())]
    shown = (output_row(task, attempts[0]), failure_row(task, attempts[1]), input_row(task, 1))
    for written in shown:
        assert bytes(written.fields["_ng_rollout_index"]) == b"5"
        assert STORED_ROLLOUTS not in written.fields


def test_an_outcome_of_another_kind_has_no_such_row() -> None:
    task = task_of(PLAIN)
    with pytest.raises(TypeError, match="not completed"):
        output_row(task, record(outcome=Failed(Failure.make(FailureKind.TOOL, ""))))
    with pytest.raises(TypeError, match="did not fail"):
        failure_row(task, record())
