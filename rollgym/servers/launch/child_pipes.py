"""The pipes of a server's process: its report, what it writes, and its end.

The end of a process is told by the process, not by its pipes: what it started may hold them open.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from typing import cast

LONGEST_LINE = 1 << 16
_STDIN, _STDOUT, _STDERR = range(3)


class ChildPipes(asyncio.SubprocessProtocol):
    """What the event loop hears of one process."""

    def __init__(self, write_line: Callable[[str], None]) -> None:
        """`write_line` gets each line of its standard error; one too long comes in pieces."""
        loop = asyncio.get_running_loop()
        self.report: asyncio.Future[bytes] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.silent: asyncio.Future[None] = loop.create_future()
        self._write_line = write_line
        self._transport: asyncio.SubprocessTransport | None = None
        self._received = {_STDOUT: b"", _STDERR: b""}

    @property
    def transport(self) -> asyncio.SubprocessTransport:
        if self._transport is None:
            raise RuntimeError("the process has not been started")
        return self._transport

    def send(self, line: bytes) -> None:
        cast("asyncio.WriteTransport", self.transport.get_pipe_transport(_STDIN)).write(line)

    def kill(self) -> None:
        """End it and everything in its session. Once it has ended, the number may be another's."""
        if self._transport is not None and not self.ended.done():
            # macOS refuses permission where only zombies are left.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._transport.get_pid(), signal.SIGKILL)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, rest = (self._received[fd] + data).split(b"\n")
        if len(rest) > LONGEST_LINE:
            lines, rest = [*lines, rest], b""
        self._received[fd] = rest
        for line in lines:
            self._take(fd, line)

    def process_exited(self) -> None:
        self.kill()
        self.ended.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._received[_STDERR]:
            self._take(_STDERR, self._received[_STDERR])
        self.silent.set_result(None)

    def _take(self, fd: int, line: bytes) -> None:
        if fd == _STDERR:
            self._write_line(line.decode("utf-8", "backslashreplace"))
        elif not self.report.done():
            self.report.set_result(line)
