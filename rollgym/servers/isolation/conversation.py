"""One worker's process as the event loop sees it: bytes in, bytes out, and its end.

There is no task that reads: the loop calls, and at most one future waits, for the next message.

*Ending.* The process is over when it has exited and its pipes are empty: only then it is sure that
no answer is on its way and that its last words are complete. A grandchild that outlives the
worker would hold the pipes open, so the whole process group is killed as soon as the worker
exits; one that has left the group is given up on after `LAST_WORDS`.
"""

import asyncio
import contextlib
import os
import signal
from typing import cast

from rollgym.servers.isolation.child import HEADER_SIZE, MESSAGE_LIMIT
from rollgym.servers.isolation.errors import IsolationError

STDERR_TAIL = 2_000
LAST_WORDS = 2.0


class Conversation(asyncio.SubprocessProtocol):
    """Messages to and from one process, one question at a time."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._transport: asyncio.SubprocessTransport | None = None
        self._received = bytearray()
        self._stderr = bytearray()
        self._message: asyncio.Future[bytes] | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._doomed = False

    @property
    def process_id(self) -> int:
        return self._process().get_pid()

    @property
    def exit_status(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process().get_returncode()

    @property
    def last_words(self) -> str:
        """The end of what the process printed."""
        return self._stderr.decode("utf-8", "replace").strip()

    def send(self, frame: bytes) -> None:
        pipe = cast("asyncio.WriteTransport", self._process().get_pipe_transport(0))
        pipe.write(frame)

    async def receive(self, patience: float) -> bytes | None:
        """The next message; None if the process ends first.

        Raises TimeoutError, but not for a message that has come in while the loop was held up.
        Raises IsolationError for bytes that are no message.
        """
        message: asyncio.Future[bytes] = self._loop.create_future()
        self._message = message
        self._deliver()
        try:
            await asyncio.wait(
                (message, self.ended), timeout=patience, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            self._message = None
        if message.done():
            return message.result()
        message.cancel()
        if self.ended.done():
            return None
        raise TimeoutError

    def kill(self) -> None:
        """Kill the process and everything in its group: now, or as soon as it exists."""
        self._doomed = True
        if self._transport is not None and not self.ended.done():
            # macOS refuses permission where only zombies are left.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process_id, signal.SIGKILL)

    def end(self) -> None:
        """There is no process any more, or there never was one."""
        if not self.ended.done():
            self.ended.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        if self._doomed:
            self.kill()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr += data
            del self._stderr[:-STDERR_TAIL]
        else:
            self._received += data
            self._deliver()

    def process_exited(self) -> None:
        self.kill()
        self._giving_up = self._loop.call_later(LAST_WORDS, self._process().close)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
        self.end()
        self._process().close()

    def _process(self) -> asyncio.SubprocessTransport:
        if self._transport is None:
            raise RuntimeError("the process has not been started")
        return self._transport

    def _deliver(self) -> None:
        if self._message is None or self._message.done() or len(self._received) < HEADER_SIZE:
            return
        size = int.from_bytes(self._received[:HEADER_SIZE], "big")
        if size > MESSAGE_LIMIT:
            self._message.set_exception(
                IsolationError(f"worker {self.process_id} sent something that is no message")
            )
        elif len(self._received) >= HEADER_SIZE + size:
            self._message.set_result(bytes(self._received[HEADER_SIZE : HEADER_SIZE + size]))
            del self._received[: HEADER_SIZE + size]
