import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from tests.integration.webgym.policies.commanding import COMMAND, PATIENCE, serving


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


def test_without_an_action_it_serves() -> None:
    with serving("--port", "0") as (_, url):
        assert model_at(url) == "scripted-baseline"


def test_it_stops_when_whoever_started_it_is_gone() -> None:
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


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["serve", "clever"], 2, "'clever' is not a policy"),
        (["serve", "heuristic"], 2, "`heuristic` was removed: serve `scripted`"),
        (["serve", "--latency", "soon"], 2, "is not a latency"),
        (["serve", "--port", "99999"], 2, "is not a port"),
        (["serve", "scripted", "--port", "0", "--solutions", "/none"], 6, "cannot read the rec"),
    ],
)
def test_wrong_use_is_refused(arguments: list[str], status: int, message: str) -> None:
    ended = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == status
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
