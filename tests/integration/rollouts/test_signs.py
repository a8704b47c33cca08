"""What deserves a look after a collection: found once, and counted the same wherever it is read."""

import json
from typing import Any

from tests.integration.rollouts.commands import AGENT, Json, Workshop, task

NAMED = f"+agent_name={AGENT}"
TOOL = {"type": "function", "name": "search", "parameters": {}}
CALL = {"type": "function_call", "call_id": "c", "name": "search", "arguments": "{}"}
AS_JSON = 'I search: {"name": "search", "arguments": {"query": "inn"}}'


def said(text: str) -> Json:
    return {"type": "message", "role": "assistant", "content": text}


def rollout(*output: Json, tools: bool = True, answer: Json | None = None, **fields: Any) -> Json:
    """A row whose agent answers with this output and these fields of the response."""
    response = {"output": [*output], **fields}
    step = {"answer": {"response": response, "reward": 0.0, **(answer or {})}}
    params = {"input": json.dumps(step), "tools": [TOOL] if tools else []}
    return {"responses_create_params": params, "script": [step]}


def looked(workshop: Workshop, *arguments: str) -> Json:
    ended = workshop.run("status", "out.jsonl", "--json", *arguments)
    found: Json = json.loads(ended.stdout)["deserves_a_look"]
    return found


def test_each_sign_is_counted_with_an_example_and_named_in_its_row(workshop: Workshop) -> None:
    incomplete: Json = {
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
    }
    episode = {"tool_errors": "3", "tool_calls_rejected": "1", "stopped_by": "max_steps"}
    expected: list[tuple[Json, list[str]]] = [
        (rollout(CALL, said("fine")), []),
        (rollout(CALL, said("cut off in the mid"), **incomplete), ["cut_reply"]),
        (
            rollout(CALL, metadata={"stopped_by": "context_overflow"}, **incomplete),
            ["context_overflow"],
        ),
        (rollout(said("I know it"), tools=False), []),
        (rollout(said("I know it")), ["no_tool_call"]),
        (rollout(said("I know it"), answer={"reward": 1.0}), ["success_without_tools"]),
        (rollout(said("<tool_call>search</tool_call>")), ["no_tool_call", "tool_call_as_text"]),
        (rollout(CALL, said(AS_JSON)), ["tool_call_as_text"]),
        (rollout(said(AS_JSON), tools=False), []),
        (
            rollout(CALL, metadata=episode),
            ["step_limit", "tool_errors", "tool_calls_rejected"],
        ),
        (rollout(CALL, said(" \n")), ["empty_answer"]),
        (rollout(tools=False), ["empty_answer"]),
        (rollout(CALL, said("B?"), answer={"extracted_answer": None}), ["no_answer_found"]),
    ]
    workshop.write("in.jsonl", [row for row, _ in expected])
    ended = workshop.collect(NAMED)
    assert ended.status == 0, ended.stderr
    rows = workshop.rollouts()
    signs = [rows[number, 0]["metadata"].get("signs", []) for number in range(len(expected))]
    assert signs == [names for _, names in expected]
    look = looked(workshop)
    assert look["tool_errors"] == {
        "count": 1,
        "share": round(1 / 13, 4),
        "total": 3,
        "example": {"task": 9, "repeat": 0},
    }
    assert look["empty_answer"]["count"] == 2
    assert "success_without_tools" not in look
    counts = {name: each["count"] for name, each in look.items()}
    assert ended.headline["deserves_a_look"] == counts
    shown = ended.stdout + ended.stderr
    assert "deserves a look, of 13 completed:" in shown
    assert "2 (15.4 %) no_tool_call: " in shown
    assert "; e.g. task 4 repeat 0" in shown
    names = ("responses_create_params", "response", "reward", "extracted_answer")
    theirs = [{name: row[name] for name in names if name in row} for row in rows.values()]
    workshop.write("theirs.jsonl", theirs)
    profile = workshop.run("profile", "theirs.jsonl")
    block = [line for line in shown.splitlines() if " %) " in line]
    assert [line.partition(";")[0] for line in profile.lines if " %) " in line] == [
        line.partition(";")[0] for line in block
    ]


def test_the_numbers_are_the_same_in_shards_and_after_a_resume(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [rollout(said(f"answer {number}")) for number in range(3)])
    for shard in ("0/2", "1/2"):
        ended = workshop.collect(NAMED, f"+shard={shard}")
        counts = ended.headline["deserves_a_look"]
        assert counts["no_tool_call"] == counts["no_success"]
    again = workshop.collect(NAMED, "+shard=1/2")
    assert again.headline == ended.headline
    look = looked(workshop)["no_tool_call"]
    assert (look["count"], look["example"]) == (3, {"task": 0, "repeat": 0})


def test_a_run_in_which_nothing_worked_does_not_look_fine(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a", script=[{"answer": {"reward": 0.0}}])])
    ended = workshop.collect(NAMED)
    shown = ended.stdout + ended.stderr
    assert "1 (100 %): no success; the highest reward is 0" in shown
    assert "every rollout is completed, but none is a success" in shown
    assert "Done." not in shown


def test_a_run_in_which_no_tool_was_called_says_so_also_when_all_succeed(
    workshop: Workshop,
) -> None:
    workshop.write("in.jsonl", [rollout(said("sunny"), answer={"reward": 1.0})])
    look = workshop.collect(NAMED).headline["deserves_a_look"]
    assert list(look) == ["success_without_tools"]


def test_a_run_without_signs_has_no_block(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a")])
    ended = workshop.collect(NAMED)
    assert "deserves" not in ended.stdout + ended.stderr
