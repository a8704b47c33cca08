"""The commands that make rollouts, run in this process; what they print and leave behind."""

import io
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from uuid import uuid4

from rollgym.cli.main import main
from tests.builders import read_json_lines
from tests.e2e.command import Ended

Json = dict[str, Any]

REPOSITORY = Path(__file__).parents[3]
AGENT = "parrot_agent"
OTHER_AGENT = "other_parrot_agent"

APP = '''
import asyncio
import json
import os

import msgspec

from rollgym.records import ModelUnavailableError
from rollgym.servers import Answer, Server, ServerConfig, ServerKind


class ParrotConfig(ServerConfig):
    voice: str = "plain"


class Parrot(Server):
    """An agent that answers each attempt at a rollout with what the row's `script` says."""

    kind = ServerKind.AGENT
    config: ParrotConfig

    def __init__(self, name, config, directory=None):
        super().__init__(name, config, directory)
        self.asked = {}
        self.route("POST", "/run", self._run)
        self.route("POST", "/aggregate_metrics", self._aggregate)

    async def _run(self, request):
        row = json.loads(request.body)
        key = (row["_ng_task_index"], row["_ng_rollout_index"])
        attempt = self.asked[key] = self.asked.get(key, 0) + 1
        script = row.get("script") or [{}]
        step = script[min(attempt, len(script)) - 1]
        await asyncio.sleep(step.get("sleep", 0))
        if "dies" in step:
            os._exit(9)
        if "unavailable" in step:
            raise ModelUnavailableError(step["unavailable"], retry_after=0)
        if "raw" in step:
            return Answer(step.get("status", 200), step["raw"].encode())
        echoed = row if step.get("echo", True) else {}
        response = {"output": [{"type": "message", "role": "assistant", "content": self.name}]}
        answer = {**echoed, "response": response, "reward": 1.0, **step.get("answer", {})}
        return Answer(200, msgspec.json.encode(answer))

    async def _aggregate(self, request):
        rows = msgspec.json.decode(request.body)["verify_responses"]
        if any("no_numbers" in row for row in rows):
            return Answer(404, b"{}")
        metrics = {"agent_metrics": {"parrots": len(rows)}, "key_metrics": {"parrots": len(rows)}}
        return Answer(200, msgspec.json.encode(metrics))
'''


class Workshop:
    """A folder with some parrots, in which commands are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        implementation = f"parrot_{uuid4().hex}"
        plugin = self.folder / "responses_api_agents" / implementation
        plugin.mkdir(parents=True)
        (plugin / "app.py").write_text(APP)
        servers = {
            name: {"responses_api_agents": {implementation: {"entrypoint": "app.py"}}}
            for name in (AGENT, OTHER_AGENT)
        }
        (self.folder / "parrots.yaml").write_text(json.dumps(servers))

    def path(self, name: str) -> Path:
        return self.folder / name

    def write(self, name: str, rows: Sequence[Mapping[str, Any]]) -> Path:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        self.path(name).write_text(text, "utf-8")
        return self.path(name)

    def rows(self, name: str) -> list[Json]:
        return read_json_lines(self.path(name))

    def rollouts(self, name: str = "out.jsonl") -> dict[tuple[int, int], Json]:
        """By task and repeat. Fails where one stands twice."""
        rows = self.rows(name)
        by_key = {(row["_ng_task_index"], row["_ng_rollout_index"]): row for row in rows}
        assert len(by_key) == len(rows)
        return by_key

    def collect(self, *overrides: str, config: str = "parrots.yaml", **options: Any) -> Ended:
        given = {"input_jsonl_fpath": "in.jsonl", "output_jsonl_fpath": "out.jsonl"} | options
        return self.run(
            "collect",
            f"+config_paths=[{config}]",
            *(f"+{name}={value}" for name, value in given.items()),
            *overrides,
        )

    def run(self, *arguments: str) -> Ended:
        stdout, stderr = io.StringIO(), io.StringIO()
        with chdir(self.folder), redirect_stdout(stdout), redirect_stderr(stderr):
            try:
                status = main(arguments)
            except SystemExit as wrong_use:
                status = int(wrong_use.code or 0)
        return Ended(status, stdout.getvalue(), stderr.getvalue())


def task(text: str = "say something", **fields: Any) -> Json:
    """An input row."""
    return {"responses_create_params": {"input": text}, **fields}


def forget_plugins(folder: Path) -> None:
    """What a test's folder gave this process does not outlast the test."""
    sys.path[:] = [entry for entry in sys.path if not entry.startswith(str(folder))]
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]
