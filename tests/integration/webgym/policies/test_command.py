import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from argparse import ArgumentParser

import pytest

from tests.integration.webgym.policies.commanding import COMMAND, PATIENCE, serving
from webgym.policies.command import configure


def model_at(url: str) -> str:
    with urllib.request.urlopen(f"{url}/v1/models", timeout=PATIENCE) as answer:
        [model] = json.load(answer)["data"]
    return str(model["id"])


def test_the_policy_is_served_under_its_own_name_until_it_is_stopped() -> None:
    with serving("serve", "scripted", "--port", "0", "--latency", "fixed:0") as (process, url):
        assert model_at(url) == "scripted-baseline"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert process.stderr
        assert process.stderr.read() == ""


def test_it_stops_when_its_parent_process_is_gone() -> None:
    starter = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([{sys.executable!r}, '-m', 'webgym.policies', 'serve', "
        "'scripted', '--port', '0'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)\n"
        "sys.stdout.buffer.write(child.stdout.readline())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", starter],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    found = re.search(r"ready at (http://\S+):", ended.stdout)
    assert found, ended.stdout + ended.stderr
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            model_at(found[1])
        except urllib.error.URLError:
            return
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_wrong_options_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    parser = ArgumentParser()
    configure(parser)
    for arguments, message in (
        (["serve", "clever"], "'clever' is not a policy"),
        (["serve", "heuristic"], "`heuristic` was removed: serve `scripted`"),
        (["serve", "--latency", "soon"], "is not a latency"),
        (["serve", "--port", "99999"], "is not a port"),
    ):
        with pytest.raises(SystemExit, match="2"):
            parser.parse_args(arguments)
        assert message in capsys.readouterr().err


def test_recordings_that_cannot_be_read_end_the_command() -> None:
    arguments = ["--port", "0", "--solutions", "/none"]  # without an action it serves
    ended = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 6
    assert "cannot read the recordings" in ended.stderr
    assert "Traceback" not in ended.stderr
