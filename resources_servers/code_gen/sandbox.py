"""The sandbox: programs run one by one, each in fresh processes, at most so many at a time."""

import os
import sys
from collections.abc import Sequence

import msgspec

from resources_servers.code_gen.execution import Bounds, Run, execute
from resources_servers.code_gen.jail.job import Job, Limits
from resources_servers.code_gen.seatbelt import wrapper
from rollgym.servers.isolation import CallSlots

THREADS = 64
OPEN_FILES = 64


class Program(msgspec.Struct, frozen=True):
    """A program, and what it is given: an input, or the arguments for one of its functions."""

    source: str
    stdin: str = ""
    entry_point: str | None = None
    arguments: Sequence[object] = ()


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """What one run may use.

    Processor time decides where the result counts; time on the clock also passes while others use
    the processor, so it is for programs that wait.
    """

    cpu_seconds: int = 10
    wall_seconds: float = 30.0
    memory_bytes: int = 512 << 20
    scratch_bytes: int = 16 << 20
    output_bytes: int = 1 << 20


class Sandbox:
    """Runs programs behind the given layers.

    Args:
        layers: Those that the machine has; one that fails makes a run a SandboxError.
        workers: How many programs run at the same time; the others wait in the order they came.
        queue_limit: How many may wait.
        queue_patience: How long one waits at most.
        python: The interpreter.
    """

    def __init__(
        self,
        layers: Sequence[str],
        *,
        workers: int = 1,
        queue_limit: int = 100_000,
        queue_patience: float = 3600.0,
        python: str = sys.executable,
    ) -> None:
        self.layers = tuple(layers)
        self._slots = CallSlots("program", workers, queue_limit)
        self._queue_patience = queue_patience
        self._python = python
        self._wrapper = wrapper(self.layers)

    async def run(self, program: Program, allowance: Allowance) -> Run:
        """Run a program once. Raises SandboxError, or NoFreeWorkerError when too many wait."""
        job = Job(
            source=program.source,
            entry_point=program.entry_point,
            arguments=program.arguments,
            layers=self.layers,
            parent=os.getpid(),
            limits=Limits(
                cpu_seconds=allowance.cpu_seconds,
                memory=allowance.memory_bytes,
                scratch=allowance.scratch_bytes,
                threads=THREADS,
                open_files=OPEN_FILES,
            ),
        ).to_bytes()
        bounds = Bounds(allowance.cpu_seconds, allowance.wall_seconds, allowance.output_bytes)
        stdin = program.stdin.encode("utf-8", "surrogatepass")
        async with self._slots.acquire(self._queue_patience):
            return await execute(job, stdin, bounds, python=self._python, wrapper=self._wrapper)
