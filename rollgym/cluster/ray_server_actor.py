"""The actor that has the process of a server on a node of a Ray cluster.

It reserves a port of its node, starts the process there, and passes on what it writes. The process
ends with the actor: at the end of its standard input, and on Linux by a signal.
"""

import contextlib
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

import msgspec

import rollgym
from rollgym.cluster.ray_nodes import own_address
from rollgym.servers.config.instances import Address
from rollgym.servers.launch.addresses import ReservedPort
from rollgym.servers.launch.server_process import CHILD_COMMAND, LONGEST_LINE, TAIL_TIMEOUT

WAITING_LINES = 1000
"""The lines of a process that may wait for the launcher; then the process waits."""


class PlaceReport(msgspec.Struct, frozen=True):
    """What an actor says about its place: a reserved port of its node, and its own process."""

    address: Address
    process: int
    node: str
    version: str


class ProcessEvent(msgspec.Struct, frozen=True):
    """A line that the process wrote, or one of its numbers: at its start and at its end."""

    started: int | None = None
    result: str | None = None
    line: str | None = None
    ended: int | None = None


class RayServer:
    """An actor: the place of one process of a server. Its name is what the dashboard shows."""

    def __init__(self, address: str | None) -> None:
        """`address` is where the server listens; None is the address of the node."""
        import ray  # noqa: PLC0415 - only with `launcher=ray`

        self._port = ReservedPort(Address(address or own_address(ray), 0))
        self._node = os.uname().nodename
        self._process: subprocess.Popen[bytes] | None = None

    def report(self) -> bytes:
        """The place, as a `PlaceReport`."""
        found = PlaceReport(self._port.address, os.getpid(), self._node, rollgym.__version__)
        return msgspec.json.encode(found)

    def serve(self, request: bytes) -> Iterator[bytes]:
        """Run the process of a `StartRequest` to its end; yields `ProcessEvent`s."""
        process = subprocess.Popen(  # noqa: S603 - our own command
            CHILD_COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._process = process
        events: queue.Queue[ProcessEvent] = queue.Queue(WAITING_LINES)
        events.put(ProcessEvent(started=process.pid))
        readers = [
            threading.Thread(target=_read, args=(process.stdout, _result, events), daemon=True),
            threading.Thread(target=_read, args=(process.stderr, _line, events), daemon=True),
        ]
        waiting = threading.Thread(target=_wait, args=(process, readers, events), daemon=True)
        for thread in (*readers, waiting):
            thread.start()
        self.send(request)
        while True:
            event = events.get()
            yield msgspec.json.encode(event)
            if event.ended is not None:
                return

    def send(self, line: bytes) -> None:
        """Write a line to the standard input of the process."""
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # it has ended
                process.stdin.write(line)
                process.stdin.flush()

    def end(self, number: int) -> None:
        """Send a signal: SIGTERM to the process, SIGKILL to everything that it started."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)


def _wait(
    process: "subprocess.Popen[bytes]",
    readers: Sequence[threading.Thread],
    events: "queue.Queue[ProcessEvent]",
) -> None:
    """Say how the process ended, after its last lines."""
    status = process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what it left behind
    for reader in readers:
        reader.join(TAIL_TIMEOUT)
    events.put(ProcessEvent(ended=status))


def _read(
    pipe: BinaryIO,
    event: Callable[[str], ProcessEvent],
    events: "queue.Queue[ProcessEvent]",
) -> None:
    while line := pipe.readline(LONGEST_LINE):
        events.put(event(line.decode("utf-8", "backslashreplace").rstrip("\n")))


def _result(text: str) -> ProcessEvent:
    return ProcessEvent(result=text)


def _line(text: str) -> ProcessEvent:
    return ProcessEvent(line=text)
