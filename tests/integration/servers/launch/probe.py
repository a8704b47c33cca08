"""A small server that does what a test tells it to, as a plug-in in a folder of its own."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from rollgym.servers import CookieJar, ServerClient
from rollgym.servers.config.loading import RunConfig, load_config

APP = """
import asyncio
import os
import subprocess
import sys
import time

import msgspec

from rollgym.records import ToolError
from rollgym.servers import Answer, Server, ServerConfig, ServerKind


class ProbeConfig(ServerConfig):
    import_delay: float = 0
    start_delay: float = 0
    close_delay: float = 0
    fail_to_start: str = ""
    fail_once_there_is: str = ""
    helper: bool = False
    api_key: str = ""
    noise: str = ""


class Probe(Server):
    kind = ServerKind.RESOURCES
    config: ProbeConfig

    def __init__(self, name, config, directory=None):
        super().__init__(name, config, directory)
        self.helper = None
        self.route("POST", "/echo", self._echo)
        self.route("POST", "/process", self._process)
        self.route("POST", "/ask", self._ask)
        self.route("POST", "/exit", self._exit)
        self.route("POST", "/slow", self._slow)
        self.route("POST", "/block", self._block)

    async def start(self):
        print(f"{self.name} starts", file=sys.stderr, flush=True)
        if self.config.noise:
            print(self.config.noise, flush=True)
        if self.config.helper:
            self.helper = subprocess.Popen(["sleep", "300"])
        await asyncio.sleep(self.config.start_delay)
        if self.config.fail_to_start:
            raise RuntimeError(self.config.fail_to_start)
        if self.config.fail_once_there_is and os.path.exists(self.config.fail_once_there_is):
            raise RuntimeError("not again")

    async def close(self):
        await asyncio.sleep(self.config.close_delay)
        if self.helper:
            self.helper.kill()
            self.helper.wait()

    async def _echo(self, request):
        return Answer(200, request.body)

    async def _process(self, request):
        helper = self.helper.pid if self.helper else None
        return Answer(200, msgspec.json.encode({"pid": os.getpid(), "helper": helper}))

    async def _ask(self, request):
        asked = msgspec.json.decode(request.body)
        client = self.directory.client(asked["server"]).one()
        return await client.call(asked["path"], b"{}", error=ToolError, any_status=True)

    async def _exit(self, request):
        print("about to end", file=sys.stderr, flush=True)
        os._exit(7)

    async def _slow(self, request):
        await asyncio.sleep(300)

    async def _block(self, request):
        time.sleep(300)
"""


class ProbeRun:
    """A working directory whose config file describes some probes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.implementation = f"probe_{uuid4().hex}"
        self._servers: dict[str, dict[str, Any]] = {}
        plugin = self.folder / "resources_servers" / self.implementation
        plugin.mkdir(parents=True)
        (plugin / "app.py").write_text(APP)

    def add(self, name: str, **settings: Any) -> None:
        inner = {self.implementation: {"entrypoint": "app.py", **settings}}
        self._servers[name] = {"resources_servers": inner}
        (self.folder / "probes.yaml").write_text(json.dumps(self._servers))

    def config(self) -> RunConfig:
        return load_config(["+config_paths=[probes.yaml]"], self.folder, listening=False)


@contextmanager
def clean_imports() -> Iterator[None]:
    """Plug-ins that a test imports into its own process do not outlast it."""
    path, modules = list(sys.path), set(sys.modules)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            del sys.modules[name]


async def ask(client: ServerClient, path: str, /, **body: Any) -> Any:
    answer = await client.post(path, body, jar=CookieJar())
    assert answer.ok, answer.text
    return json.loads(answer.body)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - what happens happens in another process
            await asyncio.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Running, and no zombie that only waits for its parent to look."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
