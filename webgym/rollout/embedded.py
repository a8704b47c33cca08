"""Embedded servers, which run as long as a rollout: browser server, sites of tasks, a model.

Each is a process in a session of its own, so that Ctrl-C reaches the run alone and the servers stay
until the run has drained. Their output goes to `<save_path>/logs/`, where the run waits for the
line that says that a server is ready. Each process has its own log files, because ranks and splits
share the folder. A server that dies is restarted at the same address a few times. At the end each
server is asked to stop, and killed if it does not.

A server also stops when the run is killed. It is started as `python -m webgym.rollout.embedded
MODULE ARGUMENT…`, with a pipe from the run as its standard input; the end of the pipe stops it.
"""

import contextlib
import logging
import os
import re
import runpy
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from rollgym.store import RefusedError
from webgym.browser.settings import TOKEN_VARIABLE

START_SECONDS = 60.0
STOP_SECONDS = 20.0
KILL_SECONDS = 5.0
ORPHAN_STOP_SECONDS = 10.0
POLL_SECONDS = 0.05
WATCH_SECONDS = 1.0
RESTARTS = 3
TAIL_LINES = 12
LOGS = "logs"
_READY = re.compile(r"(?:ready|are) at (https?://(?:\[[0-9a-fA-F:]+\]|[^\s/:]+):\d+)")
_LOGGER = logging.getLogger("webgym.rollout")


class EmbeddedError(RefusedError):
    """An embedded server did not start."""


class EmbeddedProgram(NamedTuple):
    """How a server is started. `{port}` stands for its port, which is 0 at the first start."""

    name: str
    module: str
    arguments: tuple[str, ...]
    variables: Mapping[str, str] = {}


class EmbeddedServers(NamedTuple):
    """The addresses of the embedded servers."""

    browser_url: str | None = None
    token: str | None = None
    sites_url: str | None = None
    model_url: str | None = None


@contextlib.contextmanager
def embedded_servers(
    names: Sequence[str],
    save_path: Path,
    token: str | None,
    model: Sequence[str] = (),
    browser: Sequence[str] = (),
) -> Iterator[EmbeddedServers]:
    """Start the servers, and stop them at the end of the block. Raises EmbeddedError.

    Without a token, an embedded browser server gets a random one. `model` are the options of
    `rollgym model serve`, `browser` further ones of `rollgym browser serve`.
    """
    found = EmbeddedServers(token=token)
    with contextlib.ExitStack() as stack:

        def start(name: str, module: str, *more: str, **variables: str) -> str:
            arguments = (*more, "--port", "{port}")
            program = EmbeddedProgram(name, module, arguments, variables)
            return stack.enter_context(EmbeddedServer(program, save_path / LOGS)).url

        if "sites" in names:
            found = found._replace(sites_url=start("sites", "webgym.sites", "serve"))
        if "miniwob" in names:
            found = found._replace(sites_url=start("miniwob", "webgym.miniwob"))
        if "browser" in names:
            token = token or secrets.token_urlsafe(32)
            sites = found.sites_url
            allowed = ("--allow-network", urlsplit(sites).netloc) if sites else ()
            variables = {TOKEN_VARIABLE: token}
            url = start("browser", "webgym.browser", "serve", *browser, *allowed, **variables)
            found = found._replace(browser_url=url, token=token)
        if "scripted" in names:
            found = found._replace(model_url=start("scripted", "webgym.policies", "serve"))
        if "model" in names:
            url = start("model", "rollgym", "model", "serve", *model)
            found = found._replace(model_url=url)
        yield found


class EmbeddedServer:
    """One server, for the length of a `with` block."""

    def __init__(
        self, program: EmbeddedProgram, logs: Path, start_seconds: float = START_SECONDS
    ) -> None:
        self.url = ""
        self.log = logs / f"{program.name}-{socket.gethostname()}-{os.getpid()}.log"
        self._program = program
        self._start_seconds = start_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._watching = threading.Thread(
            target=self._watch, name=f"watch {program.name}", daemon=True
        )

    def __enter__(self) -> "EmbeddedServer":
        """Raises EmbeddedError where the server is not ready in time."""
        try:
            self._start(port=0)
        except BaseException:
            self._stop()
            raise
        self._watching.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if self._watching.is_alive():
            self._watching.join(self._start_seconds + STOP_SECONDS + KILL_SECONDS)
        self._stop()

    @property
    def _name(self) -> str:
        return f"the embedded server {self._program.name!r}"

    def _start(self, port: int) -> None:
        """Raises EmbeddedError."""
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            self._spawn(port)
            self.url = self._ready()
        except OSError as error:
            reason = error.strerror or error
            raise EmbeddedError(f"{self._name} cannot be started: {reason} ({self.log})") from error

    def _spawn(self, port: int) -> None:
        program = self._program
        arguments = [part.replace("{port}", str(port)) for part in program.arguments]
        with self.log.open("ab") as log:
            self._offset = log.tell()
            self._process = subprocess.Popen(  # noqa: S603 - our own modules
                [sys.executable, "-m", "webgym.rollout.embedded", program.module, *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **program.variables, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )

    def _ready(self) -> str:
        """The URL in the line that says that the server is ready."""
        deadline = time.monotonic() + self._start_seconds
        while time.monotonic() < deadline:
            ended = self._ended()
            ready = _READY.search("\n".join(self._lines()))
            if ready is not None and ended is None:
                return ready[1]
            if ended is not None:
                raise EmbeddedError(self._with_tail(f"did not start: it {ended}"))
            if self._stopping.wait(POLL_SECONDS):
                break
        raise EmbeddedError(
            self._with_tail(f"was not ready within {self._start_seconds:g} seconds")
        )

    def _watch(self) -> None:
        """Restart the server at the same address when it dies."""
        port = urlsplit(self.url).port or 0
        for _ in range(RESTARTS):
            while (ended := self._ended()) is None:
                if self._stopping.wait(WATCH_SECONDS):
                    return
            _LOGGER.warning("%s %s; restarting it (%s)", self._name, ended, self.log)
            self._stop()
            try:
                self._start(port)
            except EmbeddedError as error:
                if self._stopping.is_set():
                    return
                _LOGGER.warning("%s", error)
        while self._ended() is None:
            if self._stopping.wait(WATCH_SECONDS):
                return
        _LOGGER.error("%s died too often and is not restarted (%s)", self._name, self.log)

    def _stop(self) -> None:
        """Ask the server to stop, then kill it and every process that it started."""
        process = self._process
        if process is None:
            return
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILL_SECONDS)
        if process.stdin is not None:
            process.stdin.close()

    def _ended(self) -> str | None:
        """How the process ended, or None while it runs."""
        status = None if self._process is None else self._process.poll()
        if status is None:
            return None
        if status >= 0:
            return f"ended with status {status}"
        return f"was killed by signal {-status}"

    def _lines(self) -> list[str]:
        """The complete lines that the process has printed since it started."""
        with self.log.open("rb") as log:
            log.seek(self._offset)
            text = log.read(1_000_000).decode(errors="replace")
        return text.splitlines() if text.endswith("\n") else text.splitlines()[:-1]

    def _with_tail(self, what: str) -> str:
        tail = [f"  | {line}" for line in self._lines()[-TAIL_LINES:]]
        ending = "its last lines:" if tail else "it printed nothing"
        return "\n".join([f"{self._name} {what}; its log is {self.log}; {ending}", *tail])


def main() -> None:
    """Run a module as a program that stops when its standard input ends."""
    module, *arguments = sys.argv[1:]
    threading.Thread(target=_stop_with_parent, name="parent", daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _stop_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHAN_STOP_SECONDS)
    os.killpg(0, signal.SIGKILL)  # the process leads its own session


if __name__ == "__main__":
    main()
