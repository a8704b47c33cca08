"""The servers that web rollouts need, each a process of its own whose costs can be told apart."""

import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

PATIENCE = 60.0
_URL = re.compile(r"https?://[^\s/]+:\d+")


class Server(NamedTuple):
    """Where it is, and the root of its processes."""

    url: str
    pid: int


class Servers(NamedTuple):
    """The pages, the browsers to open them in, and the policy in the place of a model."""

    sites: Server
    browsers: Server
    policy: Server


@contextmanager
def web_servers(folder: Path, sessions: int, latency: str, seed: int) -> Iterator[Servers]:
    """New ones, for the length of the block. What they complain about goes to files in `folder`.

    The policy plays the recorded solutions of the tasks, and thinks as long as `latency` says.
    """
    with ExitStack() as stack:

        def start(module: str, *options: str) -> Server:
            return stack.enter_context(_serving(folder, module, *options))

        sites = start("webgym.sites")
        allowed = ("--allow-network", urlsplit(sites.url).netloc)
        browsers = start("webgym.browser", "--capacity", str(sessions), *allowed)
        policy = start("webgym.policies", "scripted", "--latency", latency, "--seed", str(seed))
        yield Servers(sites, browsers, policy)


@contextmanager
def _serving(folder: Path, module: str, *options: str) -> Iterator[Server]:
    log = folder / f"{module}.{time.monotonic_ns()}.log"
    with log.open("wb") as complaints:
        process = subprocess.Popen(
            [sys.executable, "-m", module, "serve", *options, "--port", "0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
        found = _URL.search(process.stdout.readline() if ready else "")
        if found is None:
            raise RuntimeError(f"{module} did not start:\n{log.read_text(errors='replace')}")
        yield Server(found[0], process.pid)
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
