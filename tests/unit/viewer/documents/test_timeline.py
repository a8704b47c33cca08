"""Spans lead to the turns they are of, and nowhere where that is not certain."""

from typing import Any

from rollgym.servers.spans import LONGEST_LABEL, MOST_SPANS
from rollgym.viewer.documents.conversation import PROMPT_TURNS
from rollgym.viewer.documents.timeline import MOST_SPANS as MOST_SHOWN
from tests.unit.viewer.documents.records import opened

Json = dict[str, Any]

MODEL, VERIFY = ("model", ""), ("verify", "")
LONG_NAME = "look_up_" * LONGEST_LABEL


def tool(name: str) -> tuple[str, str]:
    return "tools", name


def call(name: str, id_: str = "") -> Json:
    return {"type": "function_call", "name": name, "call_id": id_, "arguments": "{}"}


def result(id_: str = "") -> Json:
    return {"type": "function_call_output", "call_id": id_, "output": "found"}


def said(text: str = "So it is.") -> Json:
    return {"type": "message", "role": "assistant", "content": text}


THOUGHT: Json = {"type": "reasoning", "content": [{"text": "Let me see."}]}


def spans(*calls: tuple[str, str]) -> list[Json]:
    """One behind another, each of a second."""
    return [
        {"phase": phase, "start": float(at), "seconds": 1.0, "label": label}
        for at, (phase, label) in enumerate(calls)
    ]


def turns_of(output: list[Json], told: list[Json], **fields: Any) -> list[int | None]:
    """The turns of the spans of a row whose response is this, in the order of their beginnings."""
    metadata = {"spans": told, **fields.pop("metadata", {})}
    timeline = opened({"response": {"output": output}, "metadata": metadata, **fields}).view()
    assert timeline.timeline is not None
    return [span.step for span in timeline.timeline.spans]


def test_the_model_leads_to_its_reply_and_a_tool_to_its_call() -> None:
    output = [THOUGHT, said("I look."), call("search"), result(), THOUGHT, said()]
    assert turns_of(output, spans(("seed", ""), MODEL, tool("search"), MODEL, VERIFY)) == [
        None,
        0,
        2,
        4,
        None,
    ]


def test_chat_messages_have_several_calls_in_one_turn() -> None:
    calls = [{"id": id_, "function": {"name": "search", "arguments": "{}"}} for id_ in "ab"]
    answers = [{"role": "tool", "tool_call_id": id_, "content": "found"} for id_ in "ab"]
    row: Json = {
        "output": [{"role": "assistant", "tool_calls": calls}, *answers, said()],
        "metadata": {"spans": spans(MODEL, tool("search"), tool("search"), MODEL)},
    }
    timeline = opened(row).view().timeline
    assert timeline is not None
    assert [span.step for span in timeline.spans] == [0, 0, 0, 3]


def test_calls_side_by_side_are_reported_apart_by_name_and_then_by_order() -> None:
    output = [call("read"), call("search"), call("read"), result(), result(), result(), said()]
    told = spans(MODEL, tool("read"), tool("search"), tool("read"), MODEL)
    for span, start in zip(told[1:4], (1.0, 1.001, 1.002), strict=True):
        span["start"] = start
    assert turns_of(output, told) == [0, 0, 1, 2, 6]
    told[3]["start"] = told[1]["start"]
    assert turns_of(output, told) == [0, None, None, 1, 6]


def test_a_call_that_was_not_made_leaves_those_of_its_name_in_doubt() -> None:
    output = [call("read"), call("search"), call("read"), result(), result(), result(), said()]
    told = spans(MODEL, tool("search"), tool("read"), MODEL)
    assert turns_of(output, told) == [0, 1, None, 6]


def test_names_are_compared_as_labels_have_them() -> None:
    output = [call(LONG_NAME), result(), call("Größe"), result(), said()]
    told = spans(MODEL, tool(LONG_NAME[:LONGEST_LABEL]), MODEL, tool("Gr??e"), MODEL)
    assert turns_of(output, told) == [0, 0, 2, 2, 4]


def test_turns_are_counted_with_a_prompt_that_stands_among_them() -> None:
    asked = [{"role": "user", "content": "a"}, said(), call("search"), result()] * PROMPT_TURNS
    output = [call("search"), result(), said()]
    shown = turns_of(
        output, spans(MODEL, tool("search"), MODEL), responses_create_params={"input": asked}
    )
    assert shown == [len(asked), len(asked), len(asked) + 2]


def test_a_question_without_a_reply_leads_nowhere() -> None:
    output = [call("search"), result()]
    told = spans(MODEL, tool("search"), MODEL)
    failed = {"failure": {"kind": "model_rate_limit", "detail": "HTTP 429"}}
    assert turns_of(output, told, **failed) == [0, 0, None]
    assert turns_of(output, told) == [None] * 3
    elsewhere = {"failure": {"kind": "verifier", "detail": "HTTP 500"}}
    assert turns_of(output, told, **elsewhere) == [None] * 3


def test_more_questions_than_replies_lead_nowhere() -> None:
    assert turns_of([said()], spans(MODEL, MODEL, VERIFY)) == [None] * 3


def test_a_tool_that_no_reply_asked_for_spoils_all() -> None:
    output = [call("search"), result(), said()]
    assert turns_of(output, spans(MODEL, tool("read"), MODEL)) == [None] * 3
    assert turns_of(output, spans(MODEL, tool("search"), tool("search"), MODEL)) == [None] * 4
    assert turns_of(output, spans(tool("search"), MODEL, MODEL)) == [None] * 3


def test_questions_side_by_side_lead_nowhere() -> None:
    output = [call("search"), result(), said()]
    told = spans(MODEL, tool("search"), MODEL)
    told[1]["seconds"] = 1.5
    assert turns_of(output, told) == [None] * 3


def test_the_first_spans_of_a_long_rollout_lead_to_its_first_turns() -> None:
    rounds = MOST_SPANS
    output = [call("search"), result()] * rounds
    kept = spans(*[MODEL, tool("search")] * rounds)[:MOST_SPANS]
    long = {"timings": {"model": float(rounds), "tools": float(rounds)}}
    wanted = [turn for turn in range(0, MOST_SPANS, 2) for _ in "mt"]
    assert turns_of(output, kept, metadata=long) == wanted
    assert turns_of(output, kept) == [None] * MOST_SPANS
    repeated = spans(*[MODEL, MODEL, tool("search")] * rounds)[:MOST_SPANS]
    assert turns_of(output, repeated, metadata=long) == [None] * MOST_SPANS


def test_messages_of_other_programs_may_hold_replies_that_were_not_asked_for() -> None:
    row: Json = {"messages": [said(), said()], "metadata": {"spans": spans(MODEL)}}
    timeline = opened(row).view().timeline
    assert timeline is not None
    assert [span.step for span in timeline.spans] == [None]


def test_a_timeline_tells_whether_all_calls_are_in_it() -> None:
    def told(seconds: float, count: int = 2) -> tuple[int, bool]:
        timings = {"model": seconds, "total": 9.0}
        metadata = {"spans": spans(*[MODEL] * count), "timings": timings}
        timeline = opened({"metadata": metadata}).view().timeline
        assert timeline is not None
        return len(timeline.spans), timeline.complete

    assert told(2.0) == told(2.0005) == (2, True)
    assert told(2.5) == (2, False)
    assert told(0.0, MOST_SHOWN + 1) == (MOST_SHOWN, False)
    assert told(1.0, 0) == (0, True)
