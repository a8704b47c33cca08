"""`rollgym gateway` as a program that runs agents itself uses it."""

import json
import re
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import PATIENCE, finish, rollgym, start

SCRIPTED = "responses_api_models/scripted_model/configs/scripted_model.yaml"
SKILFUL = "+policy_model.responses_api_models.scripted_model.skill=1"


def ask(method: str, url: str, body: object = None, key: str = "") -> Any:
    headers = {"content-type": "application/json", "x-api-key": key}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.loads(answer.read())


def test_the_gateway_alone_opens_reads_and_ends_sessions(tmp_path: Path) -> None:
    process = start(tmp_path, "gateway", "--config", SCRIPTED, "--port", "0", SKILFUL)
    assert process.stdout is not None
    try:
        ready = process.stdout.readline()
        url = re.findall(r"http://\S+", ready)[0]
        session = ask("POST", f"{url}/sessions", {"rollout": "7/0"})
        said = [{"role": "user", "content": "Hello"}]
        body = {"model": "any", "max_tokens": 9, "messages": said}
        address = f"{session['anthropic_base_url']}/v1/messages"
        message = ask("POST", address, body, session["api_key"])
        assert (message["type"], message["role"]) == ("message", "assistant")
        kept = ask("DELETE", f"{url}/sessions/{session['id']}")
        assert kept["rollgym_calls"]["dialects"] == {"messages": 1}
        assert ask("GET", f"{url}/sessions") == {"sessions": []}
    finally:
        process.send_signal(signal.SIGINT)
        ended = finish(process)
    assert ended.status == 0, ended.text


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("+policy_model.responses_api_models.scripted_model.skil=1", "did you mean 'skill'?"),
        ("+skill=1", "unknown option 'skill'"),
        ("--url=localhost:8700", "--url: 'localhost:8700' is not an http:// or https:// URL"),
        ("--max-sessions=0", "--max-sessions"),
    ],
)
def test_a_wrong_option_is_found_before_the_gateway_starts(
    tmp_path: Path, wrong: str, said: str
) -> None:
    ended = rollgym(tmp_path, "gateway", "--config", SCRIPTED, "--port", "0", wrong)
    assert (ended.status in {2, 6}, said in ended.stderr) == (True, True), ended.stderr


def test_a_gateway_that_cannot_start_says_what_is_missing(tmp_path: Path) -> None:
    ended = rollgym(tmp_path, "gateway", "--host", "0.0.0.0")
    assert (ended.status, "--token-env" in ended.stderr) == (6, True)
