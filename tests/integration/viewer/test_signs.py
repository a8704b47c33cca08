"""What deserves a look, in the viewer: noted by a collection, or found in foreign rows."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollgym.records import Completed, Failed, Failure, FailureKind, Row, Task, encode_attempt
from rollgym.rollouts.output_row import failure_row, output_row
from tests.builders import record
from tests.integration.viewer.browsing import browse
from tests.integration.viewer.rollouts import write

TOOL = {"type": "function", "name": "search", "parameters": {}}
SAID = {"type": "message", "role": "assistant", "content": "It is warm."}
PARAMS = {"input": "What is the weather?", "tools": [TOOL]}
CALL = {"type": "function_call", "call_id": "c", "name": "search", "arguments": "{}"}
REFUSED = {"type": "function_call_output", "call_id": "c", "output": '{"error":{"message":"no"}}'}
RESPONSE: dict[str, Any] = {
    "output": [CALL, REFUSED, SAID],
    "metadata": {"stopped_by": "max_steps", "tool_errors": "3"},
}
TASK = Task(0, Row.of({"responses_create_params": PARAMS}), 2)
NOTED = Completed(
    0.0,
    measures={"tool_calls": 0.0, "step_limit": 1.0, "tool_errors": 3.0},
    result=msgspec.Raw(msgspec.json.encode({"response": RESPONSE})),
)
BUG = Failed(
    Failure(
        FailureKind.VERIFIER,
        "KeyError: 'x'",
        traceback="T",
        exception="KeyError",
        file="a.py",
        line=7,
    )
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A rollout of ours, one of NeMo Gym (no `output`, `metadata`, `success`), a failed one."""
    theirs = {"responses_create_params": PARAMS, "response": {"output": [SAID]}, "reward": 0.0}
    ours = output_row(TASK, record(0, 0, outcome=NOTED)).raw
    failed = failure_row(TASK, record(0, 1, outcome=BUG)).raw
    write(tmp_path / "x_failures.jsonl", [failed + b"\n"])
    return write(tmp_path / "x.jsonl", [ours + b"\n", json.dumps(theirs).encode() + b"\n"])


def test_signs_are_counted_and_a_filter(path: Path) -> None:
    facets, overview, listed, both, one = (
        answer.json
        for answer in browse(
            path,
            *("/api/s/x/facets", "/api/s/x/overview", "/api/s/x/rollouts?sign=no_tool_call"),
            *("/api/s/x/rollouts?sign=no_tool_call&sign=tool_errors", "/api/s/x/rollouts/0-1"),
        )
    )
    names = ["no_tool_call", "step_limit", "tool_errors"]
    assert facets["sign"] == [{"value": name, "count": 1} for name in names]
    assert [each["sign"] for each in overview["signs"]] == names
    assert all(each["meaning"] for each in overview["signs"])
    assert [entry["id"] for entry in listed["entries"]] == ["0-2"]
    assert both["total"] == 2
    assert {each["sign"]: each["number"] for each in one["view"]["signs"]} == {
        "step_limit": 1,
        "tool_errors": 3,
    }
    assert one["view"]["summary"]["ending"] == "max_steps"


def test_bugs_and_errors_of_tools_are_marked_also_on_the_downloaded_page(path: Path) -> None:
    view, page, ours, turns = browse(
        path,
        "/api/s/x/rollouts/1-1",
        "/api/s/x/rollouts/1-1/page.html",
        "/api/s/x/rollouts/0-1/page.html",
        "/api/s/x/rollouts/0-1/turns",
    )
    assert view.json["view"]["failure"]["place"] == "a.py:7"
    assert "a.py:7" in page.text
    assert "tool errors that the model read (3 times)" in ours.text
    assert "tool: search (error)" in ours.text
    assert [turn.get("is_error", False) for turn in turns.json["turns"]] == [False, True, False]


def test_a_journal_has_the_same_signs(tmp_path: Path) -> None:
    journal = tmp_path / "x.run" / "journal.jsonl"
    journal.parent.mkdir()
    journal.write_bytes(encode_attempt(record(0, 0, outcome=NOTED)))
    [found] = browse(tmp_path / "x.run", "/api/s/x.run/rollouts?sign=tool_errors")
    assert [entry["ending"] for entry in found.json["entries"]] == ["max_steps"]
