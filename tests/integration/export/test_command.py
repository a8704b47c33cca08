import json
import re
from argparse import ArgumentParser
from pathlib import Path

import pytest

from rollgym.cli.export import configure, run
from rollgym.export.formats import FORMATS
from rollgym.export.source import BadRowsError
from tests.integration.export.rollouts import group, read, write

ROOT = Path(__file__).parents[3]
ROWS = [*group(0, 1.0, 0.0), *group(1, 1.0, 1.0), *group(2, 0.0, 0.0)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "rollouts.jsonl", ROWS)
    return tmp_path


def command(folder: Path, *options: str) -> int:
    parser = ArgumentParser("rollgym export")
    configure(parser)
    files = [str(folder / "rollouts.jsonl"), "--output", str(folder / "out.jsonl")]
    return run(parser.parse_args([*files, *options]))


def test_each_format_is_written_and_the_rest_accounted_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, examples, said in (
        ("--format sft", 3, "from 2 of 3 tasks with 6 rollouts (1 gave none)"),
        ("--format sft", 3, "rollouts left out: 3 no success\n"),
        ("--format sft --min-reward 0", 6, "from 3 of 3 tasks with 6 rollouts\n"),
        ("--format groups --drop-equal", 1, "tasks whose rollouts have equal rewards: 2\n"),
        ("--format preference", 1, "(2 gave none)"),
        ("--format preference --margin 1.5", 0, "(3 gave none)"),
        ("--format preference --all-pairs", 1, "(2 gave none)"),
        ("--format groups", 3, "from 3 of 3 tasks"),
        ("--format groups --filter 0<avg<1", 1, "(2 filtered out)"),
    ):
        assert command(folder, *options.split()) == 0
        assert len(read(folder / "out.jsonl")) == examples
        printed = capsys.readouterr().out
        written = "1 example" if examples == 1 else f"{examples} examples"
        assert printed.startswith(f"wrote {written} to {folder / 'out.jsonl'}, ")
        assert said in printed


def test_wrong_use_is_refused_with_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, said in (
        ("--format groups --min-reward 1", "--min-reward goes with --format sft"),
        ("--format sft --margin 1", "go with --format preference"),
        ("--format sft --all-pairs", "go with --format preference"),
        ("--format sft --drop-equal", "--drop-equal goes with --format groups"),
        ("--format sft --filter avg", "expected a comparison"),
        ("--format sft --min-reward nan", "nan is not finite"),
        ("--format parquet", "invalid choice"),
        ("", "--format"),
    ):
        with pytest.raises(SystemExit, match="2"):
            command(folder, *options.split())
        assert said in capsys.readouterr().err
        assert not (folder / "out.jsonl").exists()


def test_a_bad_file_is_refused_for_the_guard_to_report(folder: Path) -> None:
    write(folder / "rollouts.jsonl", [*ROWS, "not json"])
    with pytest.raises(BadRowsError, match="rollouts.jsonl:7: "):
        command(folder, "--format", "sft")


# The documentation.


def test_the_examples_of_the_documentation_are_what_is_exported(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "training-data.md").read_text()
    blocks = re.findall(r"^```json\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    rollout, *examples = map(json.loads, blocks)
    other = {**rollout, "reward": 0.0, "_ng_rollout_index": 1}
    other["response"] = {
        **rollout["response"],
        "output": [{"type": "message", "role": "assistant", "content": "No."}],
    }
    write(tmp_path / "rollouts.jsonl", [rollout, other])
    shown = dict(zip(FORMATS, examples, strict=True))
    for into, example in shown.items():
        command(tmp_path, "--format", into)
        assert read(tmp_path / "out.jsonl")[0] == example, into


def test_the_documentation_lists_every_option() -> None:
    parser = ArgumentParser()
    configure(parser)
    options = {option for action in parser._actions for option in action.option_strings}
    page = (ROOT / "docs" / "training-data.md").read_text()
    listed = set(re.findall(r"^\| `(--[a-z-]+)", page, re.MULTILINE))
    assert listed == options - {"-h", "--help", "--format", "--output"}
