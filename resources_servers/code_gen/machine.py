"""What this machine can isolate programs with, found out by trying.

*Layers.* Each is tried alone on a program that does nothing; the launcher says why one fails.

*Promises.* Layers are means. What counts is whether a program gets out, so one is sent to try from
behind all the layers there are: to connect to a socket of ours, to read a file of ours, to start a
process. A machine that keeps it from all three is fit to run programs that mean harm.
"""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator

import msgspec

from resources_servers.code_gen import seatbelt
from resources_servers.code_gen.jail.confinement import LANDLOCK, NAMESPACES, SECCOMP
from resources_servers.code_gen.report import Ending, SandboxError
from resources_servers.code_gen.sandbox import Allowance, Program, Sandbox

LIMITS = "limits"
REMEDY = (
    "use Linux 5.13 or later with seccomp and Landlock, or allow user namespaces (in a container: "
    "a security profile that permits `unshare` and `mount`); or set `require: best_effort` to run "
    "programs with what there is, if you trust them not to mean harm"
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
        parts += [f"no {layer} here ({why})" for layer, why in self.lacking.items()]
        return "; ".join(parts) or f"programs are isolated by {', '.join(self.layers)}"


async def inspect_machine(python: str = sys.executable) -> Machine:
    """Try everything. Raises SandboxError where not even a harmless program can be run."""
    if sys.platform != "linux":
        found = [seatbelt.SEATBELT] if seatbelt.available() else []
        lacking = {} if found else {seatbelt.SEATBELT: "there is no sandbox-exec"}
    else:
        candidates = (NAMESPACES, LANDLOCK, SECCOMP)
        faults = await asyncio.gather(*(_fault(layer, python) for layer in candidates))
        tried = dict(zip(candidates, faults, strict=True))
        found = [layer for layer, fault in tried.items() if fault is None]
        lacking = {layer: fault for layer, fault in tried.items() if fault is not None}
    layers = (LIMITS, *found)
    return Machine(layers, lacking, await _escapes(Sandbox(layers, python=python)))


async def _fault(layer: str, python: str) -> str | None:
    try:
        await Sandbox((layer,), python=python).run(Program("pass"), Allowance())
    except SandboxError as error:
        return str(error)
    return None


async def _escapes(sandbox: Sandbox) -> dict[str, str]:
    with tempfile.NamedTemporaryFile(prefix="rollgym-", suffix=".canary") as canary:
        async with _listening() as port:
            attempt = Program(_ESCAPE, entry_point="escapes", arguments=[port, canary.name])
            run = await sandbox.run(attempt, Allowance())
    if run.ending is not Ending.FINISHED:
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
