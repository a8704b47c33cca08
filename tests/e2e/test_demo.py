"""`rollgym demo` as a newcomer meets it, and as an impatient one treats it."""

import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from tests.e2e.command import (
    ROLLGYM,
    Ended,
    ends,
    finish,
    records,
    rollgym,
    start,
    wait_for_records,
    wait_until,
)

SMALL = ("--tasks", "12", "--repeats", "2", "--latency", "0.01")
SLOW = ("--tasks", "20", "--repeats", "2", "--latency", "0.15", "--concurrency", "4")
FASTER = ("--tasks", "20", "--repeats", "2", "--latency", "0.01")
ALL_SLOW = [(task, repeat) for task in range(20) for repeat in range(2)]


def adds_up(ended: Ended) -> bool:
    numbers = re.findall(r"\d+", ended.coverage.partition(";")[0])
    expected, *parts = map(int, numbers)
    return expected == sum(parts)


def test_the_demo_needs_nothing_and_completes(tmp_path: Path) -> None:
    ended = rollgym(tmp_path, "demo")
    assert ended.status == 0, ended.stderr
    directory = tmp_path / "results/demo"
    assert {path.name for path in directory.iterdir() if not path.name.startswith(".")} == {
        "manifest.json",
        "inputs.jsonl",
        "journal.jsonl",
    }
    assert set(ended.headline) >= {
        "avg_reward",
        "success_rate",
        "avg_tool_calls",
        "avg_response_length",
        "pass@1",
        "pass@4",
        "mean@4",
    }
    assert ended.lines[-4:-2] == [
        "all repeats done for 60 of 60 tasks",
        "240 expected = 240 completed + 0 failed + 0 omitted + 0 unresolved",
    ]
    assert ended.lines[-2] == "exit status 0: every rollout is completed"
    assert "no language model" in ended.stderr.lower()
    assert "\x1b" not in ended.stderr + ended.stdout
    assert any(not record["final"] for record in records(directory)), "no retry was shown"


def test_the_headline_is_what_the_journal_says(tmp_path: Path) -> None:
    ended = rollgym(tmp_path, "demo", "run", *SMALL)
    rewards = [row["outcome"]["reward"] for row in records(tmp_path / "run") if row["final"]]
    assert len(rewards) == 24
    assert ended.headline["avg_reward"] == pytest.approx(sum(rewards) / 24, abs=1e-4)
    assert ended.headline["success_rate"] == pytest.approx(rewards.count(1) / 24, abs=1e-4)


def test_running_it_again_finds_everything_there(tmp_path: Path) -> None:
    first = rollgym(tmp_path, "demo", "run", *SMALL)
    before = records(tmp_path / "run")
    began = time.monotonic()
    again = rollgym(tmp_path, "demo", "run", *SMALL)
    assert time.monotonic() - began < 5
    assert again.status == 0
    assert "everything was there already: nothing had to run" in again.lines
    assert "100% 24/24" in again.stderr
    assert records(tmp_path / "run") == before
    assert again.headline == first.headline
    assert again.coverage == first.coverage


def test_status_says_what_the_run_said(tmp_path: Path) -> None:
    run = rollgym(tmp_path, "demo", "run", *SMALL, "--failures", "0.2")
    status = rollgym(tmp_path, "status", "run")
    assert run.status == 3
    assert status.status == 0
    assert status.headline == run.headline
    assert status.coverage == run.coverage
    told = [line for line in run.lines if " x " in line or line.startswith("    e.g.")]
    assert told
    assert [line for line in status.lines if line in told] == told
    machine = json.loads(rollgym(tmp_path, "status", "run", "--json").stdout)
    assert machine["coverage"]["expected"] == 24
    assert machine["coverage"]["failed"] == machine["summary"]["failures_by_kind"]["model_context"]
    assert machine["exit_status"] == 3
    assert round(machine["summary"]["avg_reward"], 4) == run.headline["avg_reward"]


def test_failed_rollouts_run_again_when_asked_and_then_complete(tmp_path: Path) -> None:
    first = rollgym(tmp_path, "demo", "run", *SMALL, "--failures", "0.3")
    failed = int(re.findall(r"(\d+) failed", first.coverage)[0])
    assert failed > 0
    again = rollgym(tmp_path, "demo", "run", *SMALL, "--retry-failed")
    assert again.status == 0
    assert "24 completed + 0 failed" in again.coverage
    assert len(ends(tmp_path / "run")) == 24 + failed, "only the failed ones ran again"
    assert rollgym(tmp_path, "status", "run").headline == again.headline


def test_stragglers_are_omitted_when_enough_is_done(tmp_path: Path) -> None:
    ended = rollgym(
        tmp_path,
        *("demo", "run", *SLOW),
        *("--completion-threshold", "0.5", "--completion-grace-period", "0"),
    )
    assert ended.status == 4
    assert adds_up(ended)
    assert "Enough rollouts are done" not in ended.stdout
    assert ended.lines[-1].startswith("next: to run them after all: --retry-omitted")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_what_is_in_flight_and_the_same_command_continues(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = start(tmp_path, "demo", "run", *SLOW)
    wait_for_records(tmp_path / "run", 4)
    process.send_signal(number)
    stopped = finish(process)
    assert stopped.status == 5
    assert adds_up(stopped)
    assert stopped.lines[-2].startswith("exit status 5: ")
    assert "run the same command again" in stopped.lines[-1]
    kept = records(tmp_path / "run")
    assert rollgym(tmp_path, "status", "run").headline == stopped.headline

    continued = rollgym(tmp_path, "demo", "run", *FASTER)
    assert continued.status == 0
    assert records(tmp_path / "run")[: len(kept)] == kept
    assert ends(tmp_path / "run") == ALL_SLOW, "each rollout ended exactly once"
    assert rollgym(tmp_path, "status", "run").headline == continued.headline


def test_a_second_ctrl_c_does_not_wait_for_what_is_in_flight(tmp_path: Path) -> None:
    process = start(tmp_path, "demo", "run", "--latency", "30")
    wait_until((tmp_path / "run/journal.jsonl").exists)
    time.sleep(0.5)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    stopped = finish(process)
    assert stopped.status == 5
    assert time.monotonic() - began < 10
    assert "240 unresolved" in stopped.coverage


def test_a_kill_loses_nothing_that_was_recorded(tmp_path: Path) -> None:
    process = start(tmp_path, "demo", "run", *SLOW)
    wait_for_records(tmp_path / "run", 6)
    process.kill()
    finish(process)
    kept = records(tmp_path / "run")
    assert rollgym(tmp_path, "demo", "run", *FASTER).status == 0
    assert records(tmp_path / "run")[: len(kept)] == kept
    assert ends(tmp_path / "run") == ALL_SLOW


def test_the_printed_jq_lines_work(tmp_path: Path) -> None:
    ended = rollgym(tmp_path, "demo", "a run", *SMALL)
    commands = [line.strip() for line in ended.lines if line.startswith("  jq ")]
    assert len(commands) == 3
    journal = {shlex.split(command)[-1] for command in commands}
    assert journal == {"a run/journal.jsonl"}
    rewards = [row["outcome"]["reward"] for row in records(tmp_path / "a run") if row["final"]]
    outputs = [row["outcome"].get("result", {}) for row in records(tmp_path / "a run")]
    messages = [message for result in outputs for message in result.get("output", [])]
    assert {call["function"]["name"] for m in messages for call in m.get("tool_calls", [])} == {
        "calculator"
    }
    if shutil.which("jq"):
        printed = [
            subprocess.run(
                shlex.split(command), cwd=tmp_path, capture_output=True, text=True, check=True
            ).stdout
            for command in commands
        ]
        assert [float(line) for line in printed[0].split()] == rewards
        assert '"kind": "model_rate_limit"' in printed[1]
        assert [json.loads(line) for line in printed[2].splitlines()] == messages


def in_a_terminal(folder: Path, columns: int, *arguments: str) -> tuple[int, str]:
    """Run the command on a terminal of its own: exit status, and everything drawn."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        environment.pop(name, None)
    process = subprocess.Popen(
        [ROLLGYM, *arguments],
        cwd=folder,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    drawn = b""
    while True:
        try:
            data = os.read(controller, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not data:
            break
        drawn += data
    os.close(controller)
    return process.wait(timeout=60), drawn.decode()


@pytest.mark.parametrize("columns", [80, 200])
def test_on_a_terminal_the_bar_moves_and_the_end_is_readable(tmp_path: Path, columns: int) -> None:
    status, drawn = in_a_terminal(tmp_path, columns, "demo", "run", *SMALL, "--latency", "0.05")
    assert status == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)
    percentages = {int(found) for found in re.findall(r"Collecting rollouts: +(\d+)%\|", plain)}
    assert len(percentages) > 1
    assert 100 in percentages
    bars = [line for line in re.split(r"[\r\n]+", plain) if line.startswith("Collecting rollouts")]
    assert max(map(len, bars)) == min(columns, 120)
    assert drawn.rindex("\x1b[?25h") > drawn.rindex("\x1b[?25l"), "the cursor stays hidden"
    assert plain.rstrip().splitlines()[-2] == "exit status 0: every rollout is completed"
