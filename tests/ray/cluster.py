"""A Ray cluster of several nodes on this machine: each a raylet of its own, that can be killed.

Where the system allows it, every node has a mount namespace in which the folder of the run is
empty, and the nodes beside the head have an empty folder for Ray's own files as well. So no node
shares a folder with the driver or another node.

The processes of a node are those of its session; they are ended by their numbers.
"""

import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import msgspec

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
HEAD = "127.0.0.1"
_RAYLET = "raylet/raylet"
_ACTORS = ("ray::RayWorker", "ray::collect rollouts")


class RayCluster:
    """A head and two more nodes, each with one CPU for a worker."""

    def __init__(self, python: str, hidden: Path) -> None:
        """`hidden` is the folder that no node can see."""
        self.python = python
        self.port = free_port()
        self.metrics_port = free_port()
        self.name = secrets.token_hex(8)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            "TMPDIR": "/tmp",  # so Ray's own files are in the folder that is hidden below
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_ENABLE_UINT_RESOURCE_INSTANCES": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": str(ROOT),
        }
        self._hidden = hidden
        self._nodes: set[str] = set()
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._numbers = iter(range(1000))

    def __enter__(self) -> Self:
        try:
            for _ in range(3):
                self.add_node()
            for number in range(3):
                self._wait_for_node(number)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        return f"{HEAD}:{self.port}"

    @property
    def others(self) -> list[str]:
        """The nodes besides the head."""
        return [name for name in sorted(self._nodes) if not name.endswith("-0")]

    def add_node(self) -> None:
        """Start a node, the head first."""
        number = next(self._numbers)
        name = f"{self.name}-{number}"
        options = ["--num-cpus=1", "--block", "--disable-usage-stats"]
        if number == 0:
            options += ["--head", f"--port={self.port}", "--include-dashboard=false"]
            options += [f"--metrics-export-port={self.metrics_port}"]
            hidden = [self._hidden]
        else:
            options += [f"--address={self.address}"]
            hidden = [self._hidden, Path("/tmp/ray")]
            self._wait_for_node(0)
        command = [str(Path(self.python).parent / "ray"), "start", *options]
        log = self._hidden.parent / f"node-{number}.log"
        with log.open("wb") as written:
            self._started[name] = subprocess.Popen(
                _hiding(hidden, command),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                start_new_session=True,
            )
        self._nodes.add(name)

    def raylets(self) -> dict[str, int]:
        """The raylet of each node, by its name."""
        return {
            node: process
            for process, node, command in self.processes()
            if command.split("\0")[0].endswith(_RAYLET)
        }

    def actors(self) -> dict[int, str]:
        """The processes of workers, and their nodes."""
        return {
            process: node
            for process, node, command in self.processes()
            if command.startswith(_ACTORS)
        }

    def processes_called(self, name: str) -> list[int]:
        """The processes of the cluster whose title begins so."""
        return [process for process, _, command in self.processes() if command.startswith(name)]

    def server_processes(self) -> list[int]:
        """The processes of servers on the nodes; each leads a session of its own."""
        token = self.environment["RAY_AUTH_TOKEN"].encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            with contextlib.suppress(OSError):  # it has ended
                ours = token in (entry / "environ").read_bytes()
                if ours and b"rollgym.servers.launch.child" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
        return found

    def shared_folders(self) -> list[str]:
        """The nodes whose folders `hidden` are one, of every two nodes and of the driver."""
        seen: dict[tuple[int, int], str] = {_identity(self._hidden): "the driver"}
        shared = []
        for node, raylet in sorted(self.raylets().items()):
            folder = _identity(Path(f"/proc/{raylet}/root{self._hidden}"))
            if folder in seen:
                shared.append(f"{node} and {seen[folder]}")
            seen[folder] = node
        return shared

    def kill_raylet(self, node: str) -> None:
        """The node is lost; what Ray leaves of it is ended by the raylet's own end."""
        os.kill(self.raylets()[node], signal.SIGKILL)
        self._nodes.discard(node)

    def close(self) -> None:
        """End every process of every node."""
        deadline = time.monotonic() + PATIENCE
        while left := [process for process, *_ in self.processes()]:
            assert time.monotonic() < deadline, f"processes that do not end: {left}"
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.1)
        for starter in self._started.values():
            starter.wait()

    def _wait_for_node(self, number: int) -> None:
        """A node can get actors only when it has registered with the head."""
        log = self._hidden.parent / f"node-{number}.log"
        wait_until(lambda: b"Ray runtime started" in log.read_bytes(), f"node {number}")

    def processes(self) -> Iterator[tuple[int, str, str]]:
        """The processes of this cluster: number, node, command."""
        sessions = {starter.pid: node for node, starter in self._started.items()}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                command = (entry / "cmdline").read_bytes().decode()
            except OSError:
                continue  # it has ended
            if int(session) in sessions and state != "Z":
                yield int(entry.name), sessions[int(session)], command


def finals(journal: Path) -> list[tuple[int, int]]:
    """The outcomes in a journal; a torn last line is none."""
    if not journal.exists():
        return []
    whole, _, _torn = journal.read_bytes().rpartition(b"\n")
    lines = map(msgspec.json.decode, whole.splitlines())
    return [(line["task"], line["repeat"]) for line in lines if line["final"]]


def _identity(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_dev, found.st_ino


def wait_until(holds: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.05)


def can_hide() -> bool:
    """Whether the system lets us give a process folders of its own."""
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return tried.returncode == 0


def _hiding(folders: Sequence[Path], command: list[str]) -> list[str]:
    if not can_hide():
        return command
    mounts = "; ".join(f"mkdir -p {each}; mount -t tmpfs none {each}" for each in folders)
    return ["unshare", "--mount", "sh", "-c", f'{mounts}; exec "$@"', "sh", *command]


@contextmanager
def driver(
    cluster: RayCluster, folder: Path, command: Sequence[str]
) -> Iterator["subprocess.Popen[bytes]"]:
    """A command that uses the cluster, in `folder`; killed at the end if it still runs."""
    number = len(list(folder.glob("driver-*.log")))
    with (folder / f"driver-{number}.log").open("wb") as written:
        process = subprocess.Popen(
            [cluster.python, *command],
            cwd=folder,
            env=cluster.environment,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
