"""Files of rollouts that NeMo Gym wrote: without `output`, `metadata` and `success`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollgym.cli.main import main
from rollgym.viewer.formats.rows import ROLLOUTS
from tests.builders import read_json_lines
from tests.integration.export.rollouts import read, write

SAMPLE = Path(__file__).parents[2] / "counterparts" / "nemo_rollouts.jsonl"
Json = dict[str, Any]


def without_indexes(row: Json) -> Json:
    """As early versions wrote it."""
    return {name: value for name, value in row.items() if not name.startswith("_ng_")}


@pytest.mark.parametrize("shape", [lambda row: row, without_indexes])
def test_they_are_exported_profiled_and_viewed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shape: Callable[[Json], Json]
) -> None:
    source = write(tmp_path / "rollouts.jsonl", map(shape, read_json_lines(SAMPLE)))
    out = tmp_path / "sft.jsonl"
    assert main(["export", str(source), "--format", "sft", "--output", str(out)]) == 0
    first, second = read(out)
    assert [message["role"] for message in first["messages"]] == [
        *("user", "assistant", "tool", "assistant")
    ]
    assert first["messages"][-1]["content"] == "It is cold."
    assert second["messages"][-1]["content"] == "Cold."
    assert first["tools"][0]["function"]["name"] == "get_weather"
    capsys.readouterr()
    assert main(["profile", "--json", str(source)]) == 0
    profiles = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted((each["task"], each["repeats"], each["successes"]) for each in profiles) == [
        (0, 2, 1),
        (1, 2, 1),
    ]
    seen = ROLLOUTS.summary(source.read_bytes().splitlines()[0], lambda _: None)
    assert (seen.reward, seen.success, seen.tool_calls) == (1.0, True, 1)
    assert (seen.steps, seen.output_tokens, seen.detail) == (2, 12, "It is cold.")


def test_a_folder_is_exported_when_it_is_clear_which_file_is_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out" / "sft.jsonl")

    def export(source: Path) -> tuple[int, str]:
        status = main(["export", str(source), "--format", "sft", "--output", out])
        return status, capsys.readouterr().err

    folder = tmp_path / "results"
    (folder / "a.run").mkdir(parents=True)
    assert export(folder) == (
        6,
        f"rollgym: {folder} has no file of rollouts. Give the .jsonl file of a collection.\n",
    )
    for name in ("a.jsonl", "a_failures.jsonl", "a_materialized_inputs.jsonl"):
        (folder / name).write_bytes(SAMPLE.read_bytes())
    assert export(folder)[0] == export(folder / "a.run")[0] == 0
    (folder / "b.jsonl").write_bytes(SAMPLE.read_bytes())
    status, said = export(folder)
    assert status == 6
    assert f"Give one of them: {folder / 'a.jsonl'}, {folder / 'b.jsonl'}" in said
    (tmp_path / "trajectories.pt").touch()
    status, said = export(tmp_path / "trajectories.pt")
    assert status == 6
    assert "trajectories.pt cannot be read as trajectories" in said
