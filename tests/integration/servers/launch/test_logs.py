"""Logs as lines of JSON, of this process and of others."""

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollgym.servers.launch.fleet import started_in_process
from rollgym.servers.launch.logs import log_to, relay
from tests.cases import for_each
from tests.integration.servers.launch.probe import ProbeRun, ask


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    root, raising = logging.getLogger(), logging.raiseExceptions
    level, handlers = root.level, list(root.handlers)
    yield tmp_path / "logs" / "run.jsonl"
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
    logging.raiseExceptions = raising


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_record_is_a_line_with_its_extras_and_its_traceback(log_file: Path) -> None:
    log_to("info", log_file)
    try:
        raise ValueError("Bearer abc is wrong")
    except ValueError:
        logging.getLogger("x").exception("it\nbroke", extra={"server": "s", "rollout": "t/0"})
    logging.getLogger("x").debug("unseen")
    (line,) = lines(log_file)
    assert (line["level"], line["logger"], line["message"]) == ("error", "x", "it\nbroke")
    assert (line["server"], line["rollout"]) == ("s", "t/0")
    assert "ValueError: *** is wrong" in line["exception"]
    assert line["time"].endswith("+00:00")


def test_a_line_of_another_process_stays_as_it_was(log_file: Path) -> None:
    log_to("warning", log_file)
    line = '{"time": "2026-01-01T00:00:00.000+00:00", "level": "error", "message": "m", "n": 1}'
    assert relay("server", 1, line) == "m"
    assert relay("server", 1, line.replace("error", "info")) == "m"
    assert log_file.read_text() == line + "\n"


@for_each("line", ["plain sk-abcdefgh123", "{", "[]", '{"level": "odd", "message": 1}'])
def test_whatever_else_a_process_writes_is_wrapped(log_file: Path, line: str) -> None:
    log_to("warning", log_file)
    relay("server", 17, line)
    wrapped = lines(log_file)[-1]
    assert (wrapped["server"], wrapped["pid"], wrapped["level"]) == ("server", 17, "warning")
    assert wrapped["message"] == line.replace("sk-abcdefgh123", "***")


def test_the_logs_of_all_processes_come_together(probes: ProbeRun, log_file: Path) -> None:
    probes.add("here")
    probes.add("apart", isolated=True, noise="and says so")
    log_to("debug", log_file)

    async def scenario() -> None:
        async with started_in_process(probes.config()) as servers:
            for name in ("here", "apart"):
                await ask(servers.client(name), "/echo")

    asyncio.run(scenario())
    logged = lines(log_file)
    assert {line["server"] for line in logged if line["message"].startswith("/echo 200")} == {
        "here",
        "apart",
    }
    assert any(line["message"] == "and says so" for line in logged)
