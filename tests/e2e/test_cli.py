"""The `rollgym` command: wrong use, help, odd streams, and commands that read runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rollgym import __version__
from rollgym.cli.main import main
from rollgym.engine import observers
from rollgym.records import Completed
from tests.builders import make_run, record, write_journal
from tests.e2e.command import PATIENCE, ROLLGYM

PYTHON = ROLLGYM.with_name("python")
DEMO = ("demo", "+num_repeats=1", "+policy_model.responses_api_models.scripted_model.latency=0")


def run_in_shell(folder: Path, line: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=os.environ | environment | {"ROLLGYM": str(ROLLGYM)},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PATIENCE,
        check=False,
    )


def test_wrong_use_ends_with_exit_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        ((), "a command is missing"),
        (("dmeo",), "did you mean demo?"),
        (("xyz",), "the commands are run, collect, "),
        (("status", "--jsno", "run"), "did you mean '--json'?"),
        (("merge", "a"), "--into"),
        (("status",), "RUN"),
    ):
        with pytest.raises(SystemExit) as raised:
            main(arguments)
        assert raised.value.code == 2
        assert message in capsys.readouterr().err


def test_options_of_a_command_without_flags_are_written_without_dashes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "--start-timeout=3"]) == 2
    assert "are written without dashes: +start_timeout=VALUE" in capsys.readouterr().err


def test_help_fits_80_columns_and_uses_the_dialect_of_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in ((), ("status",), ("merge",), ("profile",), ("export",), ("view",)):
        with pytest.raises(SystemExit):
            main([*command, "--help"])
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 80
        if command:
            assert "+" not in text.replace("ng_viewer +jsonl_fpath", "")
    for name in ("run", "demo"):
        assert main([name, "--help"]) == 0
        text = capsys.readouterr().out.replace("`ng_collect_rollouts --help`", "")
        assert "--" not in text


def test_help_does_not_wait_for_the_engine_to_load() -> None:
    code = (
        "import sys; from rollgym.cli.main import main\n"
        "for asked in (['--help'], ['run', '--help'], ['demo', '--help']):\n"
        "    try: main(asked)\n"
        "    except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('rich', 'msgspec', 'asyncio')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_odd_streams_do_not_spoil_the_run(tmp_path: Path) -> None:
    """Closed ones, and an encoding that lacks the letters of a file name."""
    demo = " ".join(f'"{each}"' for each in DEMO)
    line = f'"$ROLLGYM" {demo} "+output_jsonl_fpath=\'日本.jsonl\'"'
    done = run_in_shell(tmp_path, line, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert "5 expected = 5 completed" in done.stderr
    done = run_in_shell(tmp_path, f'"$ROLLGYM" {demo} >&- 2>&-')
    assert done.returncode == 0
    assert (tmp_path / "results/demo_multi_step_rollouts.jsonl").read_bytes().count(b"\n") == 5


def test_a_ctrl_c_while_a_command_is_loaded_is_not_a_traceback(tmp_path: Path) -> None:
    code = (
        "import rollgym.cli.main as cli\n"
        "def interrupted(_arguments): raise KeyboardInterrupt\n"
        "cli.main = interrupted; cli.entry()"
    )
    done = run_in_shell(
        tmp_path, f'"{PYTHON}" -c "{code}"; echo $?; "{PYTHON}" -m rollgym --version'
    )
    assert (done.stdout, done.stderr) == (f"5\nrollgym {__version__}\n", "")


def test_a_reader_that_stops_reading_is_not_an_error(tmp_path: Path) -> None:
    make_run(tmp_path / "run", 3000).close()
    write_journal(tmp_path / "run/journal.jsonl", map(record, range(3000)))
    line = '"$ROLLGYM" profile run | head -n 1; echo ${PIPESTATUS[0]}'
    done = run_in_shell(tmp_path, line, PYTHONUNBUFFERED="1")
    assert done.stdout.splitlines()[-1] == "141"
    assert done.stderr == ""


def test_a_profile_has_a_line_for_each_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "run", 2, 2).close()
    rollouts = [(task, repeat) for task in range(2) for repeat in range(2)]
    write_journal(
        tmp_path / "run/journal.jsonl",
        (record(task, k, repeats=2, outcome=Completed(float(task * k))) for task, k in rollouts),
    )
    assert main(["profile", str(tmp_path / "run")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["task", "0", "1"]
    assert "pass@1" in json.loads("\n".join(lines[3:]))
    assert main(["profile", str(tmp_path / "run"), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["mean"] for row in rows] == [0.0, 0.5]


def test_a_directory_without_a_run_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = str(tmp_path / "nowhere")
    for command in (["status"], ["profile"], ["merge", "--into", str(tmp_path / "new")]):
        assert main([*command, nowhere]) == 6
        assert "nowhere holds no run" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    output = f"+output_jsonl_fpath={tmp_path}/file/rollouts.jsonl"
    assert main([*DEMO, output]) == 7


def test_numbers_that_events_never_reached_are_counted_from_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(observers, "QUEUE_SIZE", 2)
    output = tmp_path / "rollouts.jsonl"
    assert main([*DEMO, f"+output_jsonl_fpath={output}", "+num_repeats=4"]) == 0
    starved = capsys.readouterr().out
    assert main(["status", str(output)]) == 0
    assert capsys.readouterr().out.startswith(starved)
    assert '"avg_reward": null' not in starved
