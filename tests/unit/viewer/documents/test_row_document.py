import msgspec
import pytest

from rollgym.records import Row
from rollgym.viewer.documents.conversation import PROMPT_TURNS
from rollgym.viewer.documents.row_document import _WINDOW, RowDocument
from rollgym.viewer.documents.sections import MOST_FIELDS
from rollgym.viewer.summary import EntryStatus, RecordSummary, TaskFacts
from rollgym.viewer.view import FIELD_TEXT_LIMIT, RolloutDocument, SpanView, Text
from tests.unit.viewer.documents.records import DONE, Surroundings, opened, texts

ASKED = {
    "instructions": "Be brief.",
    "input": [{"role": "user", "content": "What is it?"}],
    "tools": [
        {"type": "function", "name": "search"},
        {"type": "function", "function": {"name": "read"}},
    ],
    "temperature": 0.5,
}
ROW = {
    "responses_create_params": ASKED,
    "expected": 1,
    "agent_ref": {"name": "agent"},
    "_ng_task_index": 0,
    "_ng_rollout_index": 0,
    "output": [{"role": "assistant", "content": "It is a lamp."}],
    "reward": 0.25,
    "success": False,
    "judge_said": "not quite",
    "metadata": {"attempts": 1, "timings": {"model": 1.5}, "usage": {"input_tokens": 9}},
    "response": {"id": "r1", "model": "m1", "error": None, "output": [{"role": "x"}]},
}
KNOWN = Surroundings(
    {0: Row.of({"responses_create_params": ASKED, "expected": 1.0, "agent_ref": {"name": "agent"}})}
)


def names(document: RowDocument) -> dict[str, list[str]]:
    return {
        section.title: [field.name for field in section.fields]
        for section in document.view().sections
    }


def test_a_row_is_a_document() -> None:
    document: RolloutDocument = opened(ROW)
    assert document.size == len(document.row()) == document.view().bytes
    assert document.steps(0, 50) == []


def test_sections_stand_in_order_and_tell_what_is_whose() -> None:
    assert names(opened(ROW, KNOWN)) == {
        "Verifier": ["reward", "success", "judge_said"],
        "Task": ["expected", "agent_ref"],
        "Sampling": ["model", "temperature"],
        "Tools": ["search", "read"],
        "Metadata": ["attempts", "timings", "usage"],
        "Response": ["id"],
    }


def test_where_the_input_is_not_known_the_fields_of_task_and_verifier_stand_together() -> None:
    shown = names(opened(ROW))
    assert shown["Verifier and task"] == [
        "reward",
        "success",
        "expected",
        "agent_ref",
        "judge_said",
    ]
    assert "Task" not in shown


def test_a_row_whose_own_names_collide_is_shown_with_what_moved_aside() -> None:
    metadata = {"usage": "theirs", "rollgym": {"usage": {"input_tokens": 9}, "seconds": 2.0}}
    moved = {"output": "theirs", "rollgym_output": ROW["output"], "metadata": metadata}
    document = opened({**ROW, **moved}, KNOWN)
    assert [texts(turn) for turn in document.turns(0, 9)] == [["It is a lamp."]]
    assert names(document)["Verifier"] == ["reward", "success", "output", "judge_said"]
    assert document.view().usage == {"input_tokens": 9}


def test_a_field_that_the_verifier_wrote_again_is_the_verifiers() -> None:
    assert "expected" in names(opened({**ROW, "expected": 2}, KNOWN))["Verifier"]


def test_a_field_is_cut_and_its_pointer_finds_all_of_it() -> None:
    text, numbers = "a~/b" * FIELD_TEXT_LIMIT, list(range(FIELD_TEXT_LIMIT))
    document = opened({"text/long~": text, "numbers": numbers})
    said, counted = document.view().sections[0].fields
    assert (len(said.value.text), said.value.size) == (FIELD_TEXT_LIMIT, len(text))
    assert msgspec.json.decode(document.raw(said.value.path)) == text
    assert counted.is_json
    assert len(counted.value.text) <= FIELD_TEXT_LIMIT < counted.value.size
    assert msgspec.json.decode(document.raw(counted.value.path)) == numbers


def test_very_many_fields_are_counted_not_sent() -> None:
    [section] = opened({str(n): n for n in range(MOST_FIELDS + 3)}).view().sections
    assert len(section.fields) == MOST_FIELDS + 1
    assert section.fields[-1].value.text == "3 more are in the raw JSON"


def test_a_short_prompt_is_shown_by_itself() -> None:
    view = opened(ROW).view()
    assert [(turn.role, texts(turn)) for turn in view.prompt] == [
        ("system", ["Be brief."]),
        ("user", ["What is it?"]),
    ]
    assert view.prompt[0].path == "/responses_create_params/instructions"
    assert view.turns == 1


def test_a_long_prompt_stands_in_front_of_the_turns() -> None:
    asked = [{"role": "user", "content": str(n)} for n in range(PROMPT_TURNS + 1)]
    document = opened({**ROW, "responses_create_params": {"input": asked}})
    view = document.view()
    assert view.prompt == ()
    assert view.turns == len(asked) + 1
    before, first = document.turns(PROMPT_TURNS, 10)
    assert (before.index, before.path) == (20, "/responses_create_params/input/20")
    assert (first.index, first.path) == (21, "/output/0")


def test_a_prompt_that_is_a_text_is_the_users() -> None:
    [turn] = opened({"responses_create_params": {"input": "Go."}}).view().prompt
    assert (turn.role, texts(turn), turn.path) == (
        "user",
        ["Go."],
        "/responses_create_params/input",
    )


def test_turns_are_given_in_portions() -> None:
    document = opened({"output": [{"role": "user", "content": str(n)} for n in range(10)]})
    assert [turn.index for turn in document.turns(3, 4)] == [3, 4, 5, 6]
    assert [turn.index for turn in document.turns(8, 50)] == [8, 9]
    assert document.turns(10, 50) == []


def test_a_failure_is_reported_with_what_its_kind_means() -> None:
    failure = {
        "kind": "tool",
        "detail": "it broke",
        "retryable": True,
        "causes": [{"type": "OSError", "message": "gone"}, 5],
        "traceback": "File x",
    }
    shown = opened({"failure": failure, "_ng_failure_class": "tool"}).view().failure
    assert shown is not None
    assert (shown.kind, shown.meaning) == ("tool", "a tool or its server failed")
    assert shown.detail == Text("it broke", 8, "/failure/detail")
    assert shown.retryable
    assert shown.causes == (("OSError", "gone"), ("", ""))
    assert shown.traceback == Text("File x", 6, "/failure/traceback")


def test_a_row_that_names_only_the_class_of_its_failure_has_one() -> None:
    shown = opened({"_ng_failure_class": "out_of_luck"}).view().failure
    assert shown is not None
    assert (shown.kind, shown.meaning, shown.detail) == ("out_of_luck", "", Text("", 0))


def test_spans_are_the_exact_timeline_and_timings_the_sums() -> None:
    spans = [
        {"phase": "tools", "start": 2.0, "seconds": 0.5, "label": "search"},
        {"phase": "model", "start": 0.0, "seconds": 2.0},
    ]
    metadata = {"spans": spans, "timings": {"model": 2.0, "tools": 0.5, "odd": "x"}}
    timeline = opened({"metadata": metadata}).view().timeline
    assert timeline is not None
    assert timeline.exact
    assert timeline.spans == (SpanView("model", 0.0, 2.0), SpanView("tools", 2.0, 0.5, "search"))
    assert timeline.totals == {"model": 2.0, "tools": 0.5}
    assert timeline.seconds == 2.5


def test_timings_alone_are_a_timeline_of_sums() -> None:
    timeline = opened(ROW).view().timeline
    assert timeline is not None
    assert (timeline.exact, timeline.totals, timeline.seconds) == (False, {"model": 1.5}, 1.5)
    assert opened({"metadata": {"timings": {}, "spans": "none"}}).view().timeline is None


def test_usage_comes_from_the_metadata_or_else_from_the_response() -> None:
    assert opened(ROW).view().usage == {"input_tokens": 9}
    details = {"reasoning_tokens": 3}
    usage = {"input_tokens": 5, "output_tokens": 4, "output_tokens_details": details}
    row = {"metadata": {"usage": {"input_tokens": 0}}, "response": {"usage": usage}}
    told = {"input_tokens": 5, "output_tokens": 4, "reasoning_tokens": 3}
    assert opened(row).view().usage == told


def test_the_title_is_what_the_task_is_or_else_which_it_is() -> None:
    record = msgspec.json.encode(ROW)
    named = RecordSummary(status=EntryStatus.COMPLETED, facts=TaskFacts(title="Find the lamp"))
    assert RowDocument(record, Surroundings(), named).view().title == "Find the lamp"
    assert opened(ROW).view().title == "Task 0, repeat 0"
    nameless = RecordSummary(status=EntryStatus.COMPLETED)
    assert RowDocument(record, Surroundings(), nameless).view().title == "Rollout"


def test_any_part_of_the_row_can_be_had_as_it_is_written() -> None:
    record = b' {"a": {"b": [1.0, 1e2]}, "a/b": "x"} \n'
    document = RowDocument(record, Surroundings(), DONE)
    assert document.raw("") == document.row() == record.strip()
    assert document.raw("/a/b") == b"[1.0, 1e2]"
    assert document.raw("/a~1b") == b'"x"'
    for path in ("/c", "/a/c", "a"):
        with pytest.raises(KeyError):
            document.raw(path)


def test_find_looks_at_what_is_shown_in_whatever_case() -> None:
    call = {"id": "c", "function": {"name": "Search", "arguments": '{"query":"the inn"}'}}
    document = opened(
        {
            "output": [
                {"role": "assistant", "content": "Grüße, Café!"},
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": 'says "role"\nand ends'},
                {"role": "user", "content": [{"image_url": "data:image/png;base64,inn"}]},
            ]
        }
    )
    for text, turns in {
        "grÜSSE, café": [],
        "GRÜßE, café": [0],
        "search": [1],
        '"query": "the': [1],
        '"role"\nand': [2],
        "inn": [1],
        "content": [],
        "…": [],
        "": [],
    }.items():
        assert document.find(text) == (turns, []), text


def test_what_is_no_row_is_a_value_error() -> None:
    for record in [
        b"",
        b"[]",
        b'"x"',
        b"{",
        b'{"a": NaN}',
        b'{"a": "\\ud800"}',
        b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    ]:
        with pytest.raises(ValueError):  # noqa: PT011 - of whatever words
            RowDocument(record, Surroundings(), DONE)


def test_what_is_no_utf8_is_shown_as_no_character() -> None:
    record = b'{"reward": 1, "note": "a\xffb", "more": "%b"}' % ("ä" * _WINDOW).encode()
    document = RowDocument(record, Surroundings(), DONE)
    assert msgspec.json.decode(document.raw("/note")) == "a\ufffdb"
    assert msgspec.json.decode(document.row())["more"] == "ä" * _WINDOW
    assert document.size == len(record)


def test_a_field_that_is_null_does_not_hide_the_prompt_of_the_task() -> None:
    for field in ["responses_create_params", "messages"]:
        view = opened({field: None, "reward": 0.0}, KNOWN).view()
        assert [texts(turn) for turn in view.prompt] == [["Be brief."], ["What is it?"]]


def test_messages_of_the_inputs_are_the_prompt_and_no_turns() -> None:
    messages = [{"role": "user", "content": "What is it?"}]
    context = Surroundings({0: Row.of({"messages": messages})})
    for row, turns in (({"error": "x"}, 0), ({"output": ROW["output"]}, 1)):
        document = opened(row, context)
        view = document.view()
        assert [texts(turn) for turn in view.prompt] == [["What is it?"]]
        assert view.turns == turns
        assert msgspec.json.decode(document.raw(view.prompt[0].path)) == messages[0]
