"""The process of a model: started, watched, started again, ended.

llama.cpp is C++ that reads a file of gigabytes: it may crash, or be killed for lack of memory. In a
process of its own it takes no other server with it. The process is an isolated worker
(`rollgym.servers.isolation`) whose one call starts the server and returns; so it ends with its
parent, also when that is killed.

A process that died is started again at the same port, after a pause that grows, and for a limited
number of times. Until then requests find no connection, which the endpoint pool repeats. When the
restarts are used up, `failure` says so, and requests need not wait for anything.
"""

import asyncio
import contextlib
import logging
import os
import re
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from rollgym.closing import AsyncClosable
from rollgym.engine import Backoff
from rollgym.servers.gguf.program import HOST, GgufSettings
from rollgym.servers.gguf.weights import WeightsError, require_llama
from rollgym.servers.isolation.child import WorkerCall, framed
from rollgym.servers.isolation.process import (
    CallFailedError,
    IsolatedProcess,
    IsolationError,
    WorkerSettings,
)
from rollgym.servers.isolation.workers import worker_environment

KILL_TIMEOUT = 5.0
_FUNCTION = "rollgym.servers.gguf.program:serve"
_REASONS = 2
_LLAMA_ERROR = re.compile(r"[\d.]+ E (.+)")
"""An error in llama.cpp's log: the time since its start, the level, the place and the message."""
_PAUSES = Backoff(0.25, maximum=8.0, jitter=0.0)
_LOGGER = logging.getLogger("rollgym.servers")


class GgufProcess(AsyncClosable):
    """A model that is served until `close`. Call `start` first."""

    def __init__(
        self,
        settings: GgufSettings,
        *,
        start_timeout: float = 120.0,
        restarts: int = 3,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.url = ""
        """The URL of its server, without a path; the same after a restart."""
        self.restarts = 0
        self.failure: str | None = None
        """Why it is not served any more; None while it is served or started again."""
        self._settings = settings
        self._start_timeout = start_timeout
        self._allowed = restarts
        self._worker = WorkerSettings(
            _FUNCTION, start_timeout, None, worker_environment(os.environ, environment or {})
        )
        self._process: IsolatedProcess | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.process_id if self._process and self._process.alive else None

    async def start(self) -> None:
        """Return when the model answers. Raises WeightsError."""
        require_llama()
        _require_free(self._settings.port)
        try:
            self.url = await self._launch(self._settings)
        except IsolationError as error:
            settings = self._settings
            raise WeightsError(
                f"{settings.name} was not loaded from {settings.weights}: {self._reason(error)}"
            ) from error
        self._watching = asyncio.create_task(self._watch())

    async def lost(self) -> None:
        """Wait until the model is not served any more; `failure` says why."""
        if self._watching is not None:
            await asyncio.wait({self._watching})

    async def close(self) -> None:
        """End the process. May be called in any state."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
        await self._end()

    async def _launch(self, settings: GgufSettings) -> str:
        """Start a process; the URL of its server. Raises IsolationError."""
        self._process = process = IsolatedProcess(self._worker)
        call = WorkerCall((msgspec.to_builtins(settings),), self._start_timeout, None)
        try:
            await process.ready()
            return str(await process.run(call, framed(call)))
        except BaseException:
            await self._end()
            raise

    async def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            await asyncio.wait({self._process.ended}, timeout=KILL_TIMEOUT)

    def _reason(self, error: IsolationError) -> str:
        """What llama.cpp logged before it gave up; where it logged nothing, the error."""
        output = self._process.last_output if self._process else ""
        found = [*dict.fromkeys(each.strip() for each in _LLAMA_ERROR.findall(output))]
        if not isinstance(error, CallFailedError) or not found:
            return str(error)
        return "llama.cpp says: " + "; ".join(found[:_REASONS])

    async def _watch(self) -> None:
        settings = msgspec.structs.replace(self._settings, port=urlsplit(self.url).port or 0)
        while self._process is not None:
            await asyncio.wait({self._process.ended})
            reason = f"the process of {settings.name} {self._process.exit_reason}"
            if self.restarts >= self._allowed:
                self.failure = f"{reason}; it is not restarted after {self.restarts} restarts"
                _LOGGER.error("%s", self.failure)
                return
            self.restarts += 1
            _LOGGER.warning("%s; restart %d of %d", reason, self.restarts, self._allowed)
            await asyncio.sleep(_PAUSES.delay(self.restarts, 0))
            with contextlib.suppress(IsolationError):  # its process has ended, so it is counted
                await self._launch(settings)


def _require_free(port: int) -> None:
    """Raise WeightsError for a port that cannot be listened on; llama.cpp does not say why."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise WeightsError(
                f"port {port} of {HOST} cannot be used: {error.strerror}. Choose another one, or "
                "0 for any free port"
            ) from error
