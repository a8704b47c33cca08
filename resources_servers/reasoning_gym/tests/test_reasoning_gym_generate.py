"""The generator as a program and as a function."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

pytest.importorskip("reasoning_gym")

from resources_servers.reasoning_gym.generate import DATASETS, generate_rows, main

ROOT = Path(__file__).parents[3]
EXAMPLE = Path(__file__).parents[1] / "data" / "example.jsonl"


def test_the_bundled_example_is_what_the_generator_writes(tmp_path: Path) -> None:
    output = tmp_path / "folder" / "rows.jsonl"
    command = [sys.executable, "-m", "resources_servers.reasoning_gym.generate"]
    subprocess.run([*command, "--output", str(output)], check=True, cwd=ROOT)
    assert output.read_bytes() == EXAMPLE.read_bytes()
    assert len(output.read_text().splitlines()) == 5


def test_rows_take_the_datasets_in_turn() -> None:
    rows = list(generate_rows(7, 1, ["leg_counting", "spell_backward"]))
    assert [row["dataset"] for row in rows] == ["leg_counting", "spell_backward"] * 3 + [
        "leg_counting"
    ]
    assert [row["index"] for row in rows] == [0, 0, 1, 1, 2, 2, 3]
    assert len({row["entry"]["question"] for row in rows}) == 7


def test_the_same_seed_gives_the_same_rows_and_a_longer_file_begins_with_them() -> None:
    rows = list(generate_rows(10, 3))
    assert list(generate_rows(5, 3)) == rows[:5]
    assert list(generate_rows(5, 4)) != rows[:5]
    assert {row["dataset"] for row in rows} == set(DATASETS)


def test_settings_reach_the_dataset_and_the_row(tmp_path: Path) -> None:
    output = tmp_path / "rows.jsonl"
    config = {"min_numbers": 3, "max_numbers": 3}
    setting = f"countdown={json.dumps(config)}"
    main(["--datasets", "countdown", "--dataset-config", setting, "--output", str(output)])
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["dataset_config"] for row in rows] == [config] * 5
    assert all(len(row["entry"]["metadata"]["numbers"]) == 3 for row in rows)


def test_what_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases: Iterable[tuple[list[str], str]] = [
        (["--datasets", "no_such"], "dataset 'no_such' cannot be created: .* not registered"),
        (["--dataset-config", "leg_counting=3"], "--dataset-config: invalid"),
        (
            ["--dataset-config", 'leg_counting={"no_such": 1}'],
            "dataset 'leg_counting' cannot be created: .*no_such",
        ),
    ]
    for arguments, says in cases:
        with pytest.raises(SystemExit):
            main([*arguments, "--output", str(tmp_path / "rows.jsonl")])
        assert re.search(says, capsys.readouterr().err)
