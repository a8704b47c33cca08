"""JSON that is nested too deeply is named by file and line, whichever command reads it."""

import json
import shutil
from pathlib import Path

import pytest

from rollgym.cli.main import main
from tests.cases import for_each

REFUSED = 6
DEEP = "[" * 100_000 + "]" * 100_000
SERVERS = (
    "responses_api_models/scripted_model/configs/scripted_model.yaml,"
    "resources_servers/example_multi_step/configs/example_multi_step.yaml"
)
EXAMPLE = "resources_servers/example_multi_step/data/example.jsonl"


def collect(rows: str | Path, output: Path, command: str = "collect") -> int:
    files = [f"+input_jsonl_fpath={rows}", f"+output_jsonl_fpath={output}"]
    agent = ["+agent_name=example_multi_step_simple_agent", "+limit=2"]
    own = agent if command == "collect" else []
    return main([command, f"+config_paths=[{SERVERS}]", *files, *own])


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, `a.run`, and its rollouts in `b.jsonl`."""
    folder = tmp_path_factory.mktemp("collected")
    assert collect(EXAMPLE, folder / "a.jsonl") == 0
    shutil.copy(folder / "a.jsonl", folder / "b.jsonl")
    return folder


def add_depth(file: Path, line: int) -> None:
    """Give this line of a file a further field that is nested too deeply."""
    lines = file.read_text().splitlines()
    lines[line - 1] = f'{lines[line - 1][:-1]},"deep":{DEEP}}}'
    file.write_text("\n".join(lines) + "\n")


@for_each(
    ("file", "line", "command"),
    [
        ("b.jsonl", 2, "export FILE --format sft --output OUT"),
        ("b.jsonl", 2, "profile FILE"),
        ("b.jsonl", 2, "reverify"),
        ("b.jsonl", 2, "collect"),
        ("a.run/journal.jsonl", 2, "status RUN"),
        ("a.run/journal.jsonl", 2, "merge --into OUT RUN"),
        ("a.run/journal.jsonl", 2, "resume"),
        ("a.run/inputs.jsonl", 2, "resume"),
        ("a.run/inputs.jsonl", 2, "merge --into OUT RUN"),
        ("a.run/manifest.json", 0, "status RUN"),
        ("a.run/manifest.json", 0, "resume"),
    ],
)
def test_a_line_that_is_nested_too_deeply_is_refused_by_name(
    file: str,
    line: int,
    command: str,
    collected: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    shutil.copytree(collected, folder)
    path, output = folder / file, folder / "out.jsonl"
    if line:
        add_depth(path, line)
    else:
        path.write_text(json.dumps({"run": "x"})[:-1] + f',"deep":{DEEP}}}')
    match command.split():
        case ["resume"]:
            status = collect(EXAMPLE, folder / "a.jsonl")
        case ["reverify" | "collect" as name]:
            status = collect(path, output, name)
        case words:
            given = {"FILE": str(path), "RUN": str(folder / "a.run"), "OUT": str(output)}
            status = main([given.get(word, word) for word in words])
    said = capsys.readouterr().err
    assert status == REFUSED, said
    assert (f"{path.name}:{line}" if line else path.name) in said
    changed = "this line was changed after the run was made"
    assert ("it is nested too deeply" in said) or ("inputs" in file and changed in said)
    assert not output.exists()
