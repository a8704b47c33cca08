"""Trainers load what `rollgym export` writes: `make test-trainers` brings TRL, verl and others."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rollgym import read_branches
from rollgym.export.branches import trl_rollouts
from rollgym.export.export import export
from rollgym.export.formats import FORMATS
from tests.integration.export.rollouts import read, row, write
from tests.integration.export.test_export import PICTURE

pytestmark = [pytest.mark.trainers, pytest.mark.timeout(900)]

TOOLS = [
    {"type": "function", "name": "find", "parameters": {"type": "object", "properties": {"q": {}}}},
    {"type": "function", "name": "open", "strict": True, "parameters": {"additional": [1]}},
]
PROGRAM = Path(__file__).with_name("trainers_program.py")


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "c1", "name": name, "arguments": arguments}


def rollout(task: int, repeat: int, reward: float) -> dict[str, Any]:
    """A rollout with a tool call and tokens. The tools of tasks differ, and so do arguments."""
    called = call("find", '{"q":"é"}') if task else call("open", '{"page":1,"deep":{"a":[null]}}')
    answered = {"type": "function_call_output", "call_id": "c1", "output": "found"}
    tokens = {
        "prompt_token_ids": [1, 2, task],
        "generation_token_ids": [3, repeat],
        "generation_log_probs": [-0.5, 0.0],
    }
    said = {"type": "message", "role": "assistant", "content": f"It is {task}.{repeat}", **tokens}
    asked = [{"role": "user", "content": f"task {task}"}]
    params = {"instructions": "Be brief.", "input": asked, "tools": TOOLS[: 1 + task]}
    note = {"metadata": {"chat_form": '{"developer_as_system":true}'}}
    response = {"output": [called, answered, said], **note}
    return row(task, repeat, reward, responses_create_params=params, response=response)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program of the other Python found in exports of every format."""
    python = os.environ.get("ROLLGYM_TRAINERS_PYTHON")
    if not python:
        pytest.skip("ROLLGYM_TRAINERS_PYTHON names no Python with TRL: run make test-trainers")
    folder = tmp_path_factory.mktemp("trainers")
    rows = [rollout(task, repeat, 1.0 - repeat) for task in range(2) for repeat in range(2)]
    source = write(folder / "rollouts" / "a.jsonl", rows)
    shown = {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}
    asked = {"input": [{"role": "user", "content": [shown]}]}
    pictured = write(
        folder / "rollouts" / "b.jsonl", [row(0, 0, 1.0, responses_create_params=asked)]
    )
    for kind in ("jsonl", "parquet"):
        for into in FORMATS:
            export(source, folder / f"{into}.{kind}", into)
        export(pictured, folder / f"pictures.{kind}", "sft")
    branches = [branch for branch in read_branches(source) if branch.task == 0]
    (folder / "trl_rollouts.json").write_text(json.dumps(trl_rollouts(branches)))
    done = subprocess.run(
        [python, "-I", str(PROGRAM), str(folder)],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return {**result, "written": {into: read(folder / f"{into}.jsonl") for into in FORMATS}}


def comparable(value: Any, *, nulls: bool) -> Any:
    """A value with floats to 9 decimals; `datasets` keeps no more of them where it reads JSON."""
    match value:
        case float():
            return round(value, 9)
        case dict():
            kept = {name: each for name, each in value.items() if nulls or each is not None}
            return {name: comparable(each, nulls=nulls) for name, each in kept.items()}
        case list():
            return [comparable(each, nulls=nulls) for each in value]
        case _:
            return value


@pytest.mark.parametrize("into", FORMATS)
def test_datasets_loads_the_rows_that_were_written(found: dict[str, Any], into: str) -> None:
    """From lines, `datasets` adds nulls for keys that other rows have; from Parquet it does not."""
    written = found["written"][into]
    for kind, nulls in (("parquet", True), ("jsonl", False)):
        loaded = found["rows"][f"{into}.{kind}"]
        assert comparable(loaded, nulls=nulls) == comparable(written, nulls=nulls)


def test_trl_trains_on_the_text_of_the_messages(found: dict[str, Any]) -> None:
    for texts, loss in found["sft"].values():
        assert loss > 0
        assert len(texts) == 2
        assert "<|im_start|>system\nBe brief.<|im_end|>" in texts[0]
        assert 'open {"page": 1, "deep": {"a": [null]}}</tool_call><|im_end|>' in texts[0]
        assert texts[1].endswith("<|im_start|>assistant\nIt is 1.0<|im_end|>\n")
        assert '"find"' in texts[1]


def test_trl_trains_on_the_pairs(found: dict[str, Any]) -> None:
    for parts, loss in found["preference"].values():
        assert loss > 0
        prompt, chosen, rejected = parts[1]
        assert prompt.endswith("<|im_start|>user\ntask 1<|im_end|>\n<|im_start|>assistant\n")
        assert chosen.startswith("<tool_call>find")
        assert "It is 1.0<|im_end|>" in chosen
        assert "It is 1.1<|im_end|>" in rejected


def test_pictures_are_decoded_from_files_and_from_parquet(found: dict[str, Any]) -> None:
    assert found["images"] == [["pictures.jsonl", [1, 1]], ["pictures.parquet", [1, 1]]]


def test_trl_takes_rollouts_that_were_collected_elsewhere(found: dict[str, Any]) -> None:
    assert found["grpo"] == {"rewards": [1.0, 0.0], "moved": True}


def test_verl_makes_its_tensors_of_the_fields(found: dict[str, Any]) -> None:
    assert found["verl"][0] == {
        "prompts": [1, 2, 0],
        "responses": [3, 0],
        "response_mask": [1, 1],
        "rollout_log_probs": [-0.5, 0.0],
        "rm_scores": [0.0, 1.0],
    }


def test_trajectories_are_valid_for_the_reference_models(found: dict[str, Any]) -> None:
    assert found["atif"] == found["written"]["atif"]
