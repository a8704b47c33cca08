"""The sandbox: each program runs in new processes, and only some run at the same time.

*Layers.* What a machine can isolate programs with is found out by trying: each layer is tried alone
on a program that does nothing, and the launcher reports why one fails.

*Guarantees.* What counts is whether a program can escape. So a program tries it from inside all
layers of the machine: it connects to a socket of the server, reads a file of the server's user, and
starts a process. A machine on which all three fail can run hostile programs.

*macOS.* A profile for `sandbox-exec` replaces the layers of Linux: no network, no writing, no
reading of users' files, no other programs. Programs can still start processes there, and memory is
not limited.
"""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from resources_servers.code_gen.execution import (
    ProgramLimits,
    ProgramRun,
    RunEnding,
    SandboxError,
    execute,
)
from resources_servers.code_gen.isolation.confinement import (
    LANDLOCK,
    NAMESPACES,
    SECCOMP,
    ProgramJob,
    ResourceLimits,
)
from rollgym.servers.isolation import CallSlots

THREADS = 64
OPEN_FILES = 64
SEATBELT = "seatbelt"
_COMMAND = "sandbox-exec"


class Program(msgspec.Struct, frozen=True):
    """A program with its input, or with the arguments for one of its functions."""

    source: str
    stdin: str = ""
    entry_point: str | None = None
    arguments: Sequence[object] = ()


class Sandbox:
    """Runs programs inside the given layers.

    Args:
        layers: Layers that the machine has; a run in which one fails raises SandboxError.
        workers: Programs that run at the same time; others wait in a queue.
        queue_limit: Programs that may wait.
        queue_timeout: Seconds that a program waits at most.
        python: The interpreter.
    """

    def __init__(
        self,
        layers: Sequence[str],
        *,
        workers: int = 1,
        queue_limit: int = 100_000,
        queue_timeout: float = 3600.0,
        python: str = sys.executable,
    ) -> None:
        self.layers = tuple(layers)
        self._slots = CallSlots("program", workers, queue_limit)
        self._queue_timeout = queue_timeout
        self._python = python
        # The command that starts the launcher inside the macOS sandbox.
        self._wrapper = [_COMMAND, "-p", _profile()] if SEATBELT in layers else []

    async def run(self, program: Program, limits: ProgramLimits) -> ProgramRun:
        """Run a program once. Raises SandboxError, or NoFreeWorkerError if the queue is full."""
        job = ProgramJob(
            source=program.source,
            entry_point=program.entry_point,
            arguments=program.arguments,
            layers=self.layers,
            parent=os.getpid(),
            limits=ResourceLimits(
                cpu_seconds=limits.cpu_seconds,
                memory=limits.memory_bytes,
                scratch=limits.scratch_bytes,
                threads=THREADS,
                open_files=OPEN_FILES,
            ),
        ).to_bytes()
        stdin = program.stdin.encode("utf-8", "surrogatepass")
        async with self._slots.acquire(self._queue_timeout):
            return await execute(job, stdin, limits, python=self._python, wrapper=self._wrapper)


def _profile() -> str:
    isolation = Path(__file__).parent / "isolation"
    subtrees = [f'(subpath "{path}")' for path in (sys.base_prefix, sys.prefix, isolation)]
    # Python looks into each folder on the way to a module.
    folders = [f'(literal "{path}")' for path in isolation.parents]
    readable = " ".join(subtrees + folders)
    return "\n".join(
        [
            "(version 1)",
            "(allow default)",
            "(deny network*)",
            "(deny file-write*)",
            '(allow file-write* (literal "/dev/null"))',
            '(deny file-read* (subpath "/Users") (subpath "/private/tmp") (subpath "/Volumes"))',
            f"(allow file-read* {readable})",
            "(deny signal (target others))",
        ]
    )


LIMITS = "limits"
REMEDY = (
    "use Linux 5.13 or later with seccomp and Landlock, or allow user namespaces (in a container: "
    "a security profile that permits `unshare` and `mount`); or, if you trust the programs, set "
    "`require: best_effort` to run them with the layers that this machine has"
)

_ESCAPE = """
import os, socket

def escapes(port, path):
    found = {}
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
        found["network"] = "a program can open connections"
    except OSError:
        pass
    try:
        open(path).close()
        found["files"] = "a program can read the files of this user"
    except OSError:
        pass
    try:
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
        found["processes"] = "a program can start processes"
    except OSError:
        pass
    return found
"""


class Machine(msgspec.Struct, frozen=True):
    """The layers that work here, why others do not, and what a program can do in spite of them."""

    layers: tuple[str, ...]
    lacking: dict[str, str]
    escapes: dict[str, str]

    @property
    def safe(self) -> bool:
        return not self.escapes

    def __str__(self) -> str:
        parts = [f"{why} ({promise})" for promise, why in self.escapes.items()]
        parts += [f"{layer} does not work here ({why})" for layer, why in self.lacking.items()]
        return "; ".join(parts) or f"programs are isolated by {', '.join(self.layers)}"


async def inspect_machine(python: str = sys.executable) -> Machine:
    """Try all layers. Raises SandboxError if not even a harmless program can run."""
    if sys.platform != "linux":
        found = [SEATBELT] if sys.platform == "darwin" and shutil.which(_COMMAND) else []
        lacking = {} if found else {SEATBELT: "sandbox-exec is missing"}
    else:
        candidates = (NAMESPACES, LANDLOCK, SECCOMP)
        errors = await asyncio.gather(*(_error_of(layer, python) for layer in candidates))
        tried = dict(zip(candidates, errors, strict=True))
        found = [layer for layer, error in tried.items() if error is None]
        lacking = {layer: error for layer, error in tried.items() if error is not None}
    layers = (LIMITS, *found)
    return Machine(layers, lacking, await _escapes(Sandbox(layers, python=python)))


async def _error_of(layer: str, python: str) -> str | None:
    try:
        await Sandbox((layer,), python=python).run(Program("pass"), ProgramLimits())
    except SandboxError as error:
        return str(error)
    return None


async def _escapes(sandbox: Sandbox) -> dict[str, str]:
    with tempfile.NamedTemporaryFile(prefix="rollgym-", suffix=".canary") as canary:
        async with _listening() as port:
            attempt = Program(_ESCAPE, entry_point="escapes", arguments=[port, canary.name])
            run = await sandbox.run(attempt, ProgramLimits())
    if run.ending is not RunEnding.FINISHED:
        errors = run.errors.decode("utf-8", "replace").strip()
        how = run.detail or run.ending
        raise SandboxError(f"a harmless program does not run in the sandbox: {errors} ({how})")
    return msgspec.json.decode(run.answer, type=dict[str, dict[str, str]])["result"]


@contextlib.asynccontextmanager
async def _listening() -> AsyncIterator[int]:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port: int = server.sockets[0].getsockname()[1]
        yield port
