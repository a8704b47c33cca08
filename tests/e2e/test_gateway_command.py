"""`rollgym gateway` as a program that runs agents itself uses it."""

import json
import re
import signal
import urllib.request
from pathlib import Path
from typing import Any

from tests.e2e.command import PATIENCE, finish, rollgym, start

SCRIPTED = "responses_api_models/scripted_model/configs/scripted_model.yaml"


def ask(method: str, url: str, body: object = None, key: str = "") -> Any:
    headers = {"content-type": "application/json", "x-api-key": key}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.loads(answer.read())


def test_the_gateway_alone_opens_reads_and_ends_sessions(tmp_path: Path) -> None:
    process = start(tmp_path, "gateway", "--config", SCRIPTED, "--port", "0")
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


def test_a_gateway_that_cannot_start_says_what_is_missing(tmp_path: Path) -> None:
    ended = rollgym(tmp_path, "gateway", "--host", "0.0.0.0")
    assert (ended.status, "--token-env" in ended.stderr) == (6, True)
