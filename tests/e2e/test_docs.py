"""What the documentation shows works as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

from rollgym.engine import ExitStatus
from rollgym.records import TRAITS

DOCS = Path(__file__).parents[2] / "docs"

STUB = """
async def ask(question: str) -> str:
    if question == "broken":
        raise ConnectionError("the tool hung up")
    return question.upper()
"""


def code_block(page: str, language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert match, f"{page} has no {language} block"
    return match[1]


def run_example(folder: Path, rows: str) -> "subprocess.CompletedProcess[str]":
    (folder / "tasks.jsonl").write_text(rows)
    (folder / "program.py").write_text(STUB + code_block("collecting.md", "python"))
    return subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_program_of_the_guide_collects_and_continues(tmp_path: Path) -> None:
    rows = '{"question": "a", "answer": "A"}\n{"question": "b", "answer": "?"}\n'
    for _ in range(2):
        done = run_example(tmp_path, rows)
        assert done.returncode == ExitStatus.COMPLETE, done.stderr
        assert done.stdout == ("8 expected = 8 completed + 0 failed + 0 omitted + 0 unresolved\n")


def test_a_failure_in_the_program_of_the_guide_is_typed(tmp_path: Path) -> None:
    done = run_example(tmp_path, '{"question": "broken", "answer": ""}\n')
    assert done.returncode == ExitStatus.FAILED, done.stderr
    assert '"kind":"tool"' in (tmp_path / "results/first/journal.jsonl").read_text()


def test_the_guide_lists_every_exit_status() -> None:
    page = (DOCS / "collecting.md").read_text()
    listed = {int(status) for status in re.findall(r"^\| (\d) \|", page, re.MULTILINE)}
    assert listed == {*ExitStatus, 1, 2}


def test_the_reference_lists_every_failure_kind_as_the_code_has_it() -> None:
    page = (DOCS / "run-directory.md").read_text()
    for kind, traits in TRAITS.items():
        again = "yes" if traits.retryable else "no"
        meaning = re.escape(traits.meaning)
        assert re.search(rf"^\| `{kind}` \| {meaning}.* \| {again} \|$", page, re.MULTILINE), kind
