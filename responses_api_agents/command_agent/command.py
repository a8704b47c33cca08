"""Running the command of an agent: bounded in time and output, and ended with all it started.

The command runs below a supervisor (`supervisor.py`), which ends all its processes at the end, at
the deadline, or when this process is gone. Its output is read to its end, so that it never waits
for a reader; the first and the last bytes are kept.
"""

import asyncio
import contextlib
import os
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from rollgym.records import AgentError

KeepFolders = Literal["never", "failed", "always"]
ENDING = 6.0
"""Seconds after the grace period in which the supervisor must have ended everything."""
KEPT_HEAD = 4 * 1024
KEPT_TAIL = 28 * 1024
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_BLOCK = 64 * 1024
_INHERITED = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR"),
        *("VIRTUAL_ENV", "PYTHONPATH", "NODE_PATH", "LD_LIBRARY_PATH"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    )
)


def split_command(command: str | Sequence[str], folder: Path) -> list[str]:
    """The words of a command. Files of `folder`, where rollgym was started, get absolute names.

    The command runs in another folder, so `python my_agent.py` would not find the file otherwise.
    Raises ValueError.
    """
    words = shlex.split(command) if isinstance(command, str) else list(command)
    if not words:
        raise ValueError("the command is empty")
    looks_like_path = ("." in word or os.sep in word for word in words)
    return [
        str((folder / word).absolute()) if maybe and (folder / word).is_file() else word
        for word, maybe in zip(words, looks_like_path, strict=True)
    ]


def inherited_environment(further: Sequence[str]) -> dict[str, str]:
    """The variables of this process that an agent gets; keys and other secrets are not among them.

    `further` are the names of more of them.
    """
    wanted = _INHERITED | set(further)
    kept = (name for name in os.environ if name in wanted or name.startswith("LC_"))
    return {name: os.environ[name] for name in kept}


class RolloutFolder:
    """The folder of a rollout: the task, and `work` for the agent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path / "work"
        self.work.mkdir()
        self.failed = True


@contextmanager
def rollout_folder(root: Path | None, keep: KeepFolders) -> Iterator[RolloutFolder]:
    """A folder for one rollout, removed at the end unless it is to be kept.

    It is made in `root`, or in the system's temporary folder.
    """
    if root is not None:
        root.mkdir(parents=True, exist_ok=True)
    folder = RolloutFolder(Path(tempfile.mkdtemp(prefix="rollgym-agent-", dir=root)))
    try:
        yield folder
    finally:
        if keep == "never" or (keep == "failed" and not folder.failed):
            shutil.rmtree(folder.path, ignore_errors=True)


class RunningCommand:
    """A command that runs. `ask_to_end` may be called at any time; call `end` last."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._output = _Tail()
        self._errors = _Tail()
        assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018
        self._readers = [
            asyncio.create_task(self._output.read(process.stdout)),
            asyncio.create_task(self._errors.read(process.stderr)),
        ]
        self._status = asyncio.create_task(self._read_status())

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        standard_input: Path,
        grace: float,
    ) -> "RunningCommand":
        """Raises AgentError where no process can be started."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        arguments = [sys.executable, "-I", "-S", str(_SUPERVISOR)]
        arguments += [str(theirs.fileno()), str(grace), *command]
        try:
            with standard_input.open("rb") as given:
                process = await asyncio.create_subprocess_exec(
                    *arguments,
                    stdin=given,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    cwd=folder,
                    env=environment,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            raise AgentError(f"the command cannot be started: {error}", retryable=True) from error
        finally:
            theirs.close()
        return cls(process, ours)

    @property
    def has_ended(self) -> bool:
        """Whether the command has ended by itself."""
        return self._status.done()

    async def wait(self, seconds: float) -> int | None:
        """The exit status; None where the command did not end in these seconds."""
        await asyncio.wait({self._status}, timeout=seconds)
        return self._status.result() if self._status.done() else None

    def ask_to_end(self) -> None:
        """SIGTERM, and after the grace period SIGKILL for everything."""
        with contextlib.suppress(OSError):
            self._control.send(b"t")

    async def end(self, grace: float) -> tuple[str, str]:
        """Wait until everything has ended; returns what was written to the standard streams."""
        ended = asyncio.ensure_future(self._process.wait())
        done, _ = await asyncio.wait({ended}, timeout=grace + ENDING)
        if not done:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await asyncio.wait({ended, *self._readers}, timeout=ENDING)
        for task in (ended, self._status, *self._readers):
            task.cancel()
        self._control.close()
        return self._output.text(), self._errors.text()

    def abandon(self) -> None:
        """End everything at once, without waiting for it."""
        with contextlib.suppress(OSError):
            self._control.send(b"k")

    async def _read_status(self) -> int | None:
        reported = await asyncio.get_running_loop().sock_recv(self._control, 16)
        try:
            return int(reported)
        except ValueError:  # the supervisor was killed
            return None


class _Tail:
    """The first and the last bytes of a stream."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    async def read(self, stream: asyncio.StreamReader) -> None:
        while block := await stream.read(_BLOCK):
            room = KEPT_HEAD - len(self._head)
            self._head += block[:room]
            self._tail += block[room:] if room > 0 else block
            surplus = len(self._tail) - KEPT_TAIL
            if surplus > 0:
                self._dropped += surplus
                del self._tail[:surplus]

    def text(self) -> str:
        head, tail = (bytes(part).decode("utf-8", "replace") for part in (self._head, self._tail))
        return f"{head}\n… ({self._dropped} bytes)\n{tail}" if self._dropped else head + tail
