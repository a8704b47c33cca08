"""A collection over faulty servers: its folder, and the real commands in processes of their own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from rollgym.servers import tool_schemas
from tests.chaos import faulty_environment
from tests.chaos.collected import OUTPUT, Collected, Json, journal
from tests.chaos.faulty_environment import FaultyEnvironment, FaultyTask, Trouble
from tests.e2e.command import PATIENCE, Ended, wait_until
from tests.e2e.serving import NG_RUN
from tests.integration.servers.launch.probe import is_alive
from tests.ports import free_port

NG_COLLECT = (sys.executable, "-m", "rollgym.cli.collect")
CONFIG, INPUT = "faulty.yaml", "tasks.jsonl"
AGENT, ENVIRONMENT, MODEL = "faulty_agent", "faulty_environment", "faulty_model"
STRANGER = "strange_agent"


class Workspace:
    """A working directory with a plug-in, a configuration and an input."""

    def __init__(self, folder: Path, model_url: str, rows: Iterable[FaultyTask]) -> None:
        self.folder = folder
        self.pool: Json = {"failures_before_rest": 1000, "backoff_initial": 0.01}
        self.agent: Json = {"max_steps": 5}
        self.environment: Json = {}
        self.model: Json = {"openai_base_url": model_url}
        self.stranger: Json = {}
        """An agent of somebody else's, for the tasks whose trouble is in its `/run`."""
        plugin = folder / "resources_servers" / "faulty"
        plugin.mkdir(parents=True)
        (plugin / "app.py").write_bytes(Path(faulty_environment.__file__).read_bytes())
        lines = (json.dumps(input_row(row)) + "\n" for row in rows)
        (folder / INPUT).write_text("".join(lines))

    def write_config(self) -> None:
        """The configuration as the settings are now."""
        references = {
            "resources_server": {"type": "resources_servers", "name": ENVIRONMENT},
            "model_server": {"type": "responses_api_models", "name": MODEL},
        }
        config: dict[str, Json] = {
            ENVIRONMENT: {"resources_servers": {"faulty": self.environment}},
            AGENT: {"responses_api_agents": {"simple_agent": {**references, **self.agent}}},
            MODEL: {
                "responses_api_models": {
                    "openai_model": {"openai_model": "faulty", "pool": self.pool, **self.model}
                }
            },
        }
        if self.stranger:
            config[STRANGER] = {"responses_api_agents": {"somebody_elses": self.stranger}}
        for kinds in config.values():
            for implementations in kinds.values():
                for settings in implementations.values():
                    if "url" not in settings:
                        settings["entrypoint"] = "app.py"
        (self.folder / CONFIG).write_text(json.dumps(config))

    def start(self, *options: str, head: int | None = None) -> "Collecting":
        """`ng_collect_rollouts`, with servers of its own or with those of a head."""
        self.write_config()
        servers = f"+config_paths=[{CONFIG}]" if head is None else f"+head_server.port={head}"
        return Collecting(self.folder, servers, *options)

    def collect(self, *options: str, head: int | None = None) -> Collected:
        with self.start(*options, head=head) as collecting:
            return collecting.wait()

    def serve(self, *options: str, head: int | None = None) -> "Serving":
        """`ng_run`."""
        self.write_config()
        return Serving(self.folder, head or free_port(), *options)


def input_row(task: FaultyTask) -> Json:
    """The model reads the task in the text, the environment in the fields beside it."""
    fields = task.model_dump(mode="json")
    tools = tool_schemas(FaultyEnvironment)
    params = {"input": [{"role": "user", "content": json.dumps(fields)}], "tools": tools}
    strange = any(trouble.at == "run" for trouble in task.troubles)
    named = {"agent_ref": {"name": STRANGER}} if strange else {}
    return {**fields, **named, "responses_create_params": params}


def troubled(number: int, *troubles: Trouble) -> FaultyTask:
    return FaultyTask(number=number, troubles=troubles)


class _Command:
    """A process whose streams go to files, so that it never waits for a reader."""

    def __init__(self, folder: Path, name: str, command: Sequence[str]) -> None:
        number = len(list(folder.glob(f"{name}-*.stdout")))
        self._stdout = folder / f"{name}-{number}.stdout"
        self._stderr = folder / f"{name}-{number}.stderr"
        self.started = time.monotonic()
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
            )

    @property
    def stdout(self) -> str:
        return self._stdout.read_text()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Until this holds, which is to be while the command runs."""
        wait_until(lambda: self.process.poll() is not None or holds())
        assert self.process.poll() is None, self.stdout + self.stderr

    def kill(self) -> None:
        """-9, as a machine without memory does it."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


class Serving(_Command):
    """An `ng_run` and the processes of its servers."""

    def __init__(self, folder: Path, head: int, *options: str) -> None:
        self.head = head
        servers = (f"+config_paths=[{CONFIG}]", f"+head_server.port={head}")
        super().__init__(folder, "ng_run", [*NG_RUN, *servers, *options])
        self._pids = {self.process.pid}

    def wait_until_ready(self) -> Self:
        self.wait_until(lambda: "ready: " in self.stdout)
        return self

    def instance(self, name: str) -> Json:
        listed = _ask(f"http://127.0.0.1:{self.head}/server_instances")
        self._pids |= {pid for each in listed for pid in each["pids"]}
        found: Json = next(each for each in listed if each["name"] == name)
        return found

    def kill_server(self, name: str) -> None:
        """Kill the process of a server, -9, and wait until there is another one."""
        pid = self.instance(name)["pid"]
        os.kill(pid, signal.SIGKILL)
        self.wait_until(
            lambda: self.instance(name)["status"] == "ready" and self.instance(name)["pid"] != pid
        )

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """The process of a server does nothing for a while, and does not say so."""
        pid = self.instance(name)["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def health(self, name: str) -> Json:
        answer: Json = _ask(f"{self.instance(name)['url']}/healthz")
        return answer

    def __exit__(self, *_: object) -> None:
        """Nothing of it may be left, however it ended."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE)
        wait_until(lambda: not any(map(is_alive, self._pids)))


class Collecting(_Command):
    """An `ng_collect_rollouts`."""

    def __init__(self, folder: Path, *options: str) -> None:
        files = (f"+input_jsonl_fpath={INPUT}", f"+output_jsonl_fpath={OUTPUT}")
        # The faults are those of rollouts, and a check before them would meet the first.
        command = [*NG_COLLECT, f"+agent_name={AGENT}", "+preflight=false", *files, *options]
        super().__init__(folder, "collect", command)
        self._folder = folder

    def wait_for(self, status: str, count: int) -> None:
        """Until the journal has so many attempts with this status."""
        self.wait_until(lambda: self._recorded(status) >= count)

    def _recorded(self, status: str) -> int:
        return sum(each["outcome"]["status"] == status for each in journal(self._folder))

    def children(self) -> list[int]:
        """The processes that it has started."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]

    def wait(self) -> Collected:
        """Its end, and the most memory it had."""
        peak = 0
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"no end in {PATIENCE:g} s: {self.stderr}"
            peak = max(peak, _peak_memory(self.process.pid))
            time.sleep(0.02)
        seconds = time.monotonic() - self.started
        ended = Ended(self.process.returncode, self.stdout, self.stderr)
        return Collected(self._folder, ended, seconds, peak)


def _ask(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return json.loads(answer.read())


def _peak_memory(pid: int) -> int:
    """In bytes; 0 of a process that has just ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0
