"""Trajectories of ATIF: what is exported comes back, and those of other programs are read."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from rollgym import read_branches
from rollgym.cli.main import main
from rollgym.export.branches import SplitBranch, trl_rollouts
from rollgym.export.export import export
from rollgym.export.imported import import_atif
from rollgym.export.source import ExportError
from tests.integration.export.rollouts import read, row, write
from tests.integration.export.test_export import PICTURE

Json = dict[str, Any]


def call(number: int, name: str) -> Json:
    made = {"type": "function_call", "call_id": f"c{number}", "name": "find"}
    return {**made, "arguments": json.dumps({"name": name})}


def result(number: int, text: str) -> Json:
    return {"type": "function_call_output", "call_id": f"c{number}", "output": text}


def say(text: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content}


def tokens(prompt: list[int], sampled: list[int]) -> Json:
    known = [-0.5] * len(sampled)
    return {
        "prompt_token_ids": prompt,
        "generation_token_ids": sampled,
        "generation_log_probs": known,
    }


def rollout(repeat: int, reward: float) -> Json:
    """Two turns of the agent with tokens, after a worked turn in the prompt."""
    asked = [
        {"role": "developer", "content": "Use the tool."},
        {"role": "user", "content": "Where is A?"},
        call(0, "A"),
        result(0, "north"),
        {"role": "assistant", "content": "In the north."},
        {"role": "user", "content": "Where is B?"},
    ]
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    output = [
        thought,
        {**call(1, "B"), **tokens([1, 2], [3, 4])},
        result(1, "south"),
        {**say(f"In the south, {repeat}."), **tokens([1, 2, 3, 4, 5], [6])},
    ]
    tools = [{"type": "function", "name": "find", "parameters": {"type": "object"}}]
    response: Json = {"output": output, "model": "m"}
    response["metadata"] = {"chat_form": '{"developer_as_system":true}'}
    response["usage"] = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    params = {"input": asked, "tools": tools}
    turns = [
        {"version": "7", "item": 1},
        {"version": "8", "parts": [["7", None], ["8", None]], "item": 3},
    ]
    fields: Json = {"responses_create_params": params, "response": response}
    return row(3, repeat, reward, **fields, rollgym_turns=turns)


def exported(source: Path, into: str) -> list[Json]:
    target = source.with_name(f"{source.stem}-{into}.out")
    export(source, target, into)
    return read(target)


def test_an_exported_trajectory_has_turns_results_and_tokens(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", [rollout(0, 1.0)])
    (found,) = exported(source, "atif")
    assert [step["source"] for step in found["steps"]] == [
        *("system", "user", "agent", "agent", "user", "agent", "agent")
    ]
    copied, _, _, made, last = found["steps"][2:]
    assert copied["is_copied_context"]
    assert "metrics" not in copied
    assert made["reasoning_content"] == "Hm."
    assert made["tool_calls"][0]["arguments"] == {"name": "B"}
    assert made["observation"]["results"] == [{"source_call_id": "c1", "content": "south"}]
    assert last["metrics"]["prompt_token_ids"] == [1, 2, 3, 4, 5]
    assert last["metrics"]["completion_token_ids"] == [6]
    assert made["metrics"]["extra"] == {"policy_version": "7"}
    both = [["7", None], ["8", None]]
    assert last["metrics"]["extra"] == {"policy_version": "8", "policy_versions": both}
    assert found["extra"]["reward"] == 1.0


def test_what_was_exported_and_imported_exports_to_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "a.jsonl", [rollout(0, 1.0), rollout(1, 0.0)])
    export(source, tmp_path / "atif.jsonl", "atif")
    again = tmp_path / "again.jsonl"
    assert main(["import", str(tmp_path / "atif.jsonl"), "--output", str(again)]) == 0
    assert "wrote 2 rollouts of 1 task to" in capsys.readouterr().out
    for into in ("tokens", "sft", "groups", "preference", "verl"):
        assert exported(again, into) == exported(source, into), into
    assert main(["profile", str(again)]) == 0


def trial(folder: Path, steps: list[Json], outcome: Json) -> None:
    (folder / "agent").mkdir(parents=True)
    agent = {"name": "other", "version": "1"}
    document = {"schema_version": "ATIF-v1.4", "session_id": "s", "agent": agent, "steps": steps}
    (folder / "agent" / "trajectory.json").write_text(json.dumps(document))
    (folder / "agent" / "seen.png").write_bytes(b64decode(PICTURE))
    (folder / "result.json").write_text(json.dumps(outcome))


def test_trials_of_harbor_are_repeats_with_rewards_and_failures_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = {"type": "image", "source": {"media_type": "image/png", "path": "seen.png"}}
    steps = [
        {"step_id": 1, "source": "user", "message": [{"type": "text", "text": "Look."}, image]},
        {
            "step_id": 2,
            "source": "agent",
            "message": "I run it.",
            "tool_calls": [{"tool_call_id": "x", "function_name": "run", "arguments": {}}],
            "observation": {"results": [{"content": "done"}]},
        },
        {"step_id": 3, "source": "user", "message": "And now?"},
        {"step_id": 4, "source": "agent", "message": "Yes."},
    ]
    scored = {"verifier_result": {"rewards": {"reward": 1.0, "speed": 3}}, "exception_info": None}
    trial(tmp_path / "jobs" / "a", steps, scored)
    trial(tmp_path / "jobs" / "b", steps, {"verifier_result": {"rewards": {"reward": 0}}})
    trial(tmp_path / "jobs" / "c", steps, {**scored, "exception_info": {"type": "Timeout"}})
    trial(tmp_path / "jobs" / "d", steps, {})
    output = tmp_path / "out.jsonl"
    assert main(["import", str(tmp_path / "jobs"), "--output", str(output)]) == 0
    said = capsys.readouterr().out
    assert "1 ended with an exception, 1 without a reward" in said
    rows = read(output)
    assert [(each["_ng_task_index"], each["_ng_rollout_index"]) for each in rows] == [
        (0, 0),
        (0, 1),
    ]
    assert [each["reward"] for each in rows] == [1.0, 0.0]
    (example,) = exported(output, "sft")
    assert [message["role"] for message in example["messages"]] == [
        *("user", "assistant", "tool", "user", "assistant")
    ]
    assert example["images"]


def test_a_file_that_is_no_trajectory_is_refused_by_name(tmp_path: Path) -> None:
    for text, said in (
        ("{}", "a.json: this is not a trajectory"),
        ('{"schema_version": "ATIF-v2.0", "agent": {"name": "a"}, "steps": []}', "versions 1"),
        ('{"schema_version": "ATIF-v1.7", "agent": {"name": "a"}, "steps": []}', "has a reward"),
    ):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(ExportError, match=said):
            import_atif([tmp_path / "a.json"], tmp_path / "out.jsonl")
        assert not (tmp_path / "out.jsonl").exists()
    with pytest.raises(ExportError, match="choose another output"):
        import_atif([tmp_path / "a.json"], tmp_path / "a.json")
    odd = rollout(0, 1.0) | {"rollgym_tokens": [{"sampled": "?"}]}
    source = write(tmp_path / "odd.jsonl", [odd])
    with pytest.raises(ExportError, match="odd.jsonl:1: "):
        export(source, tmp_path / "out.jsonl", "atif")


def test_trainers_get_the_tokens_split_at_the_first_sampled_one(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", [rollout(0, 1.0)])
    branches = [*read_branches(source)]
    assert SplitBranch.of(branches[0]) == (
        [1, 2],
        [3, 4, 5, 6],
        [1, 1, 0, 1],
        [-0.5, -0.5, 0.0, -0.5],
    )
    (example,) = exported(source, "verl")
    assert example["response_mask"] == [1, 1, 0, 1]
    assert trl_rollouts(branches)["env_mask"] == [[1, 1, 0, 1]]
    unknown = [*read_branches(write(tmp_path / "b.jsonl", [without_logprobs(rollout(0, 1.0))]))]
    with pytest.raises(ValueError, match="log probability of every sampled token"):
        trl_rollouts(unknown)


def without_logprobs(given: Json) -> Json:
    for item in given["response"]["output"]:
        item.pop("generation_log_probs", None)
    return given
