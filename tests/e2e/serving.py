"""The real `ng_run` in a process of its own, and what it leaves."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.command import PATIENCE, wait_until
from tests.integration.servers.launch.probe import ProbeRun, is_alive
from tests.ports import free_port

NG_RUN = (sys.executable, "-m", "rollgym.cli.ng_run")
NG_STATUS = (sys.executable, "-m", "rollgym.cli.ng_status")


class Serving:
    """One `ng_run` in the folder of some probes. Its streams go to files."""

    def __init__(
        self,
        probes: ProbeRun,
        *arguments: str,
        head: int | None = None,
        command: Sequence[str] = NG_RUN,
        **options: Any,
    ) -> None:
        self.folder = probes.folder
        self.head = head or free_port()
        self._stdout, self._stderr = probes.folder / "stdout", probes.folder / "stderr"
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            streams = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr}
            self.process = subprocess.Popen(
                [
                    *command,
                    "+config_paths=[probes.yaml]",
                    f"+head_server.port={self.head}",
                    *arguments,
                ],
                cwd=probes.folder,
                **{**streams, **options},
            )
        self.pids = {self.process.pid}

    @property
    def stdout(self) -> str:
        return self._stdout.read_text()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def instances(self) -> list[dict[str, Any]]:
        """What the head says; nothing while there is none."""
        url = f"http://127.0.0.1:{self.head}/server_instances"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                listed: list[dict[str, Any]] = json.loads(answer.read())
        except (urllib.error.URLError, ConnectionError):
            return []
        self.pids |= {pid for each in listed for pid in each["pids"]}
        return listed

    def wait_for(self, status: str) -> list[dict[str, Any]]:
        """Until every server is in this status."""
        wait_until(
            lambda: (
                self.process.poll() is not None
                or {each["status"] for each in self.instances()} == {status}
            )
        )
        assert self.process.poll() is None, self.stderr
        return self.instances()

    def wait_until_ready(self) -> list[dict[str, Any]]:
        return self.wait_for("ready")

    def wait_for_processes(self, count: int) -> None:
        """Until the head knows this many processes, ready or not."""
        wait_until(lambda: len([pid for s in self.instances() for pid in s["pids"]]) >= count)

    def post(self, url: str, **body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read())

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        os.kill(self.process.pid, number)

    def wait(self) -> int:
        """Its exit status; nothing of it may be left then."""
        status = self.process.wait(PATIENCE)
        wait_until(lambda: not any(map(is_alive, self.pids)))
        return status

    def close(self) -> None:
        """After a test that went wrong."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def ng_status(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*NG_STATUS, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
