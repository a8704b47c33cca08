"""What the launcher reports, and whose doing the end of a run was.

The launcher says `started`, `ended` or `fault` over a socket that the program cannot reach.

*Blame.* Whatever happens after `started` is the program's doing, with one exception: a program
cannot die by SIGKILL of its own accord, so one that did, within its limits, was killed by the
machine. That and everything before `started` is a `SandboxError`, and no verdict on the program.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from enum import StrEnum

import msgspec

from resources_servers.code_gen.jail.program import OUT_OF_MEMORY
from rollgym.records import VerifierError

# The kernel counts processor time in ticks, so it may kill a little early.
CPU_LIMIT_SHARE = 0.8


class SandboxError(VerifierError):
    """The program could not be run, through no fault of its own."""


class Ending(StrEnum):
    """How a run ended."""

    FINISHED = "finished"
    FAILED = "failed"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"


class End(msgspec.Struct, frozen=True):
    """The wait status of the program's process, and the processor time it used."""

    status: int
    cpu_seconds: float

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL


class Report(asyncio.Protocol):
    """The judge's end of the launcher's socket."""

    def __init__(self) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.on_start: Callable[[], None] = lambda: None
        self.started = False
        self._received = bytearray()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self.started and self._received.startswith(b"started\n"):
            self.started = True
            self.on_start()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    @property
    def fault(self) -> str:
        """Why the program was not started, "" where the launcher did not live to say it."""
        first = self._received.decode("utf-8", "replace").partition("\n")[0]
        return first.removeprefix("fault ")

    @property
    def end(self) -> End | None:
        """None where the launcher did not live to say it."""
        words = self._received.partition(b"ended ")[2].split()
        return End(os.waitstatus_to_exitcode(int(words[0])), float(words[1])) if words else None


def conclude(end: End | None, stopped: Ending | None, cpu_limit: int) -> Ending:
    """How the run ended, given what the judge stopped it for. Raises SandboxError."""
    if stopped is Ending.OUTPUT_LIMIT:
        return stopped
    if stopped is not None and (end is None or end.killed):
        return stopped
    if end is None:
        raise SandboxError("the launcher was killed from outside while its program ran")
    if end.killed:
        if end.cpu_seconds >= CPU_LIMIT_SHARE * cpu_limit:
            return Ending.TIME_LIMIT
        raise SandboxError(
            f"the program was killed from outside (SIGKILL) after {end.cpu_seconds:.1f} s of "
            "processor time, most often by the system for want of memory; use fewer workers"
        )
    match end.status:
        case 0:
            return Ending.FINISHED
        case status if status == OUT_OF_MEMORY:
            return Ending.MEMORY_LIMIT
        case _:
            return Ending.FAILED


def describe(end: End | None) -> str:
    """The end of a program in words, "" where there is nothing to say."""
    if end is None or end.status == 0:
        return ""
    if end.status > 0:
        return f"exit status {end.status}"
    try:
        return f"killed by {signal.Signals(-end.status).name}"
    except ValueError:
        return f"killed by signal {-end.status}"
