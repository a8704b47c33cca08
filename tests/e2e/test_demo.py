"""`rollgym demo` in processes of its own: complete, resumed, interrupted, killed, on a terminal."""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from rollgym.cli.main import main
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

MODEL = "+policy_model.responses_api_models.scripted_model"
QUICK = f"{MODEL}.latency=0"
SLOW = f"{MODEL}.latency=0.1"
ENDLESS = f"{MODEL}.latency=600"
RUN = Path("results/demo_multi_step_rollouts.run")
ALL = [(task, repeat) for task in range(5) for repeat in range(8)]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    """A folder in which the demo has run once, and what it printed. Tests copy or read it."""
    folder = tmp_path_factory.mktemp("demo")
    return folder, rollgym(folder, "demo", QUICK)


def test_the_demo_needs_nothing_and_completes(demo: tuple[Path, Ended]) -> None:
    folder, ended = demo
    assert ended.status == 0, ended.stderr
    assert {path.name for path in (folder / "results").iterdir()} == {
        "demo_multi_step_rollouts.jsonl",
        "demo_multi_step_rollouts_failures.jsonl",
        "demo_multi_step_rollouts_materialized_inputs.jsonl",
        "demo_multi_step_rollouts_aggregate_metrics.json",
        "demo_multi_step_rollouts.run",
    }
    assert ended.headline.keys() >= {"avg_reward", "success_rate", "avg_tool_calls", "pass@8"}
    assert 0 < ended.headline["success_rate"] < 1
    assert ended.lines[-4:] == [
        "all repeats done for 5 of 5 tasks",
        "40 expected = 40 completed + 0 failed + 0 omitted + 0 unresolved",
        "exit status 0: every rollout is completed",
        "Done. `+resume=false` starts over.",
    ]
    assert "no language model" in ended.stderr.lower()
    assert "\x1b" not in ended.stderr + ended.stdout
    rewards = [row["outcome"]["reward"] for row in records(folder / RUN) if row["final"]]
    assert ended.headline["avg_reward"] == pytest.approx(sum(rewards) / 40, abs=1e-4)


def test_a_finished_run_is_not_collected_again_and_its_status_is_the_same(
    demo: tuple[Path, Ended], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, first = demo
    monkeypatch.chdir(folder)
    before = records(RUN)
    assert main(["demo", SLOW]) == 0
    again = Ended(0, *capsys.readouterr())
    assert "all rollouts were collected before: nothing had to run" in again.lines
    assert "100% 40/40" in again.stderr
    assert records(RUN) == before
    assert (again.headline, again.coverage) == (first.headline, first.coverage)
    assert main(["status", str(RUN)]) == 0
    status = Ended(0, *capsys.readouterr())
    assert (status.headline, status.coverage) == (first.headline, first.coverage)
    assert main(["status", str(RUN), "--json"]) == 0
    machine = json.loads(capsys.readouterr().out)
    assert (machine["coverage"]["expected"], machine["exit_status"]) == (40, 0)


def test_another_seed_is_another_run_and_is_rejected_with_the_difference(
    demo: tuple[Path, Ended],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(demo[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    assert main(["demo", QUICK, "+seed=1"]) == 6
    rejected = capsys.readouterr().err
    assert "seed: 0 in the run, 1 now" in rejected
    assert "--" not in rejected, "options of another dialect"
    journal = RUN / "journal.jsonl"
    journal.write_bytes(b"nonsense\n" + journal.read_bytes())
    assert main(["demo", QUICK]) == 6
    assert "journal.jsonl:1: " in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_demo_continues_with_the_same_command(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = start(tmp_path, "demo", SLOW)
    wait_for_records(tmp_path / RUN, 4)
    process.send_signal(number)
    stopped = finish(process)
    kept = records(tmp_path / RUN)
    assert 4 <= len(kept) < 40
    if number != signal.SIGKILL:
        assert stopped.status == 5
        assert f"40 expected = {len(kept)} completed" in stopped.coverage
        assert stopped.lines[-1].startswith("Run the same command again")
        assert "Stopping after " in stopped.stderr
    continued = rollgym(tmp_path, "demo", QUICK)
    assert continued.status == 0
    assert records(tmp_path / RUN)[: len(kept)] == kept
    assert ends(tmp_path / RUN) == ALL, "each rollout ended exactly once"


def test_a_second_ctrl_c_does_not_wait_for_running_rollouts(tmp_path: Path) -> None:
    process = start(tmp_path, "demo", ENDLESS)
    wait_until((tmp_path / RUN / "journal.jsonl").exists)
    time.sleep(0.5)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    stopped = finish(process)
    assert stopped.status == 5, stopped.stderr
    assert records(tmp_path / RUN) == []


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


def test_on_a_terminal_the_bar_moves_and_the_end_is_readable(tmp_path: Path) -> None:
    status, drawn = in_a_terminal(tmp_path, 90, "demo")
    assert status == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)
    percentages = {int(found) for found in re.findall(r"Collecting rollouts: +(\d+)%\|", plain)}
    assert len(percentages) > 1
    assert 100 in percentages
    bars = [line for line in re.split(r"[\r\n]+", plain) if line.startswith("Collecting rollouts")]
    assert max(map(len, bars)) == 90
    assert drawn.rindex("\x1b[?25h") > drawn.rindex("\x1b[?25l"), "the cursor stays hidden"
    assert plain.rstrip().splitlines()[-2] == "exit status 0: every rollout is completed"
