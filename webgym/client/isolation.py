"""Browser requests in worker processes: a crash there fails one episode, never the run.

*Why.* Pages are untrusted: megabytes of text, broken pictures, responses that make a reader crash
or loop. With `env_config.isolation: process` all of it is received and read in workers, through
`webgym.client.operations`. A worker that dies, hangs or reaches its memory ceiling is killed and
replaced, and its call becomes a typed failure of its rollout, which is retried:

=====================================  ============================================
the worker dies                        BrowserError: the step may have been carried out
it does not respond in time            DeadlineError
its memory ceiling is reached          BrowserError
none is free, none can be started      BrowserUnavailableError
=====================================  ============================================

*Cost.* A worker handles one request at a time, so there should be as many as sessions in use. It
takes about 16 MB of memory and 0.1 s of processor time to start, and starts when it is needed.

*Waiting for a browser* can take long, and a worker that waits can do nothing else. So only half of
the workers may wait for a session at a time, for a few seconds each; episodes that have a session
always find a worker to act, and to release it.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from rollgym.closing import AsyncClosable
from rollgym.records import BrowserError, BrowserUnavailableError, DeadlineError, RolloutError
from rollgym.servers.context import seconds_left
from rollgym.servers.isolation import (
    ArgumentsError,
    CallFailedError,
    CallTimeoutError,
    IsolatedWorkers,
    IsolationError,
    NoFreeWorkerError,
    WorkersClosedError,
    WorkerStartError,
)
from rollgym.servers.limit import Limit
from webgym.actions.space import Viewport
from webgym.browser.contract.answers import ImageFormat, Lease, Observe, Picture, StepAnswer
from webgym.browser.contract.commands import Command, InteractionMode, Sleep
from webgym.browser.contract.errors import (
    BadRequestError,
    NoSessionError,
    ServerUnreachableError,
    StepDeadlineError,
    error_named,
)
from webgym.browser.contract.profile import (
    DEFAULT_PROFILE,
    RecordingKind,
    SessionProfile,
    StorageState,
)
from webgym.browser.responses import SLACK
from webgym.client import operations
from webgym.client.sessions import DEFAULT_URL, SessionClient, request_headers

WORKERS = 64
"""Processes of a client that is used alone; each starts when a call needs it."""
MEMORY_BYTES = 1 << 30
QUEUE_LIMIT = 10_000
START_SECONDS = 30.0
ALLOCATION_SECONDS = 5.0
"""How long a worker waits for a session before another worker may."""
_QUEUE_SLACK = 0.25

T = TypeVar("T")
log = logging.getLogger(__name__)


class ProcessIsolator(AsyncClosable):
    """Runs functions of modules in supervised worker processes. Use it as `async with`.

    `memory_bytes` is the address space of a worker (Linux). `queue_limit` calls may wait for one
    of the `workers`. `lost` counts workers that died or had to be killed.
    """

    def __init__(
        self,
        *,
        workers: int = WORKERS,
        memory_bytes: int | None = MEMORY_BYTES,
        queue_limit: int = QUEUE_LIMIT,
    ) -> None:
        self.lost = 0
        self._workers = IsolatedWorkers(
            f"{operations.__name__}:{operations.perform.__name__}",
            workers=workers,
            start_timeout=START_SECONDS,
            memory_bytes=memory_bytes,
            queue_limit=queue_limit,
        )

    async def close(self) -> None:
        """Kill the workers; calls in progress raise."""
        await self._workers.close()

    async def run(self, operation: Callable[..., T], *arguments: object, within: float) -> T:
        """Call a function of a module with plain arguments, in at most `within` seconds.

        Raises the errors of the contract that the function raises, and those of the table above;
        BadRequestError for arguments that cannot be sent; RolloutError for a bug in the function.
        """
        name = f"{operation.__module__}:{operation.__qualname__}"
        if within <= 0:
            raise StepDeadlineError(f"there was no time left for {operation.__name__}")
        try:
            with Limit(within + _QUEUE_SLACK):
                performed: operations.OperationResult = await self._workers.call(
                    name, list(arguments), timeout=within, wait_timeout=within
                )
        except TimeoutError as error:
            raise DeadlineError(
                f"{operation.__name__} did not end within {within:.1f} s: its worker was killed"
            ) from error
        except IsolationError as error:
            raise self._failure(operation.__name__, error) from error
        if "type" in performed:
            raise _reported(performed)
        value: T = performed["value"]
        return value

    def _failure(self, what: str, error: IsolationError) -> Exception:
        """The error as the rollout sees it."""
        match error:
            case CallTimeoutError():
                self._note_loss(what, error)
                return DeadlineError(str(error))
            case NoFreeWorkerError() | WorkerStartError() | WorkersClosedError():
                return BrowserUnavailableError(
                    f"no worker process is available for {what}: {error}"
                )
            case ArgumentsError():
                return BadRequestError(str(error))
            case CallFailedError(error_type="MemoryError"):
                return BrowserError(f"a worker ran out of memory during {what}: {error}")
            case CallFailedError():
                return RolloutError(str(error))
            case _:
                self._note_loss(what, error)
                return BrowserError(f"a worker was lost during {what}: {error}")

    def _note_loss(self, what: str, error: IsolationError) -> None:
        self.lost += 1
        log.warning("a worker was lost during %s and is replaced: %s", what, error)


class IsolatedBrowserClient(SessionClient["IsolatedBrowserSession"]):
    """`BrowserClient` for episodes, with every request made in a worker process.

    Without a token that of CPU_CLUSTER_TOKEN is sent, if set; workers get the token with each
    call, not through their environment.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        deadline_seconds: float = 60.0,
        *,
        workers: int = WORKERS,
        memory_bytes: int | None = MEMORY_BYTES,
        profile: SessionProfile = DEFAULT_PROFILE,
    ) -> None:
        super().__init__(profile)
        if not url.startswith(("http://", "https://")):
            raise ValueError(
                f"{url!r} is not the address of a browser server: give http://HOST:PORT"
            )
        self.deadline_seconds = deadline_seconds
        self.isolator = ProcessIsolator(workers=workers, memory_bytes=memory_bytes)
        self._server: operations.ServerAddress = {
            "url": url.rstrip("/"),
            "headers": request_headers(token),
        }
        self._acquiring = asyncio.Semaphore(max(1, workers // 2))

    async def close(self) -> None:
        await super().close()
        await self.isolator.close()

    async def ask(self, operation: Callable[..., T], *arguments: Any, within: float | None) -> T:
        """Run an operation on the server, within the deadline of the current rollout."""
        usual = self.deadline_seconds if within is None else within
        left = seconds_left(usual)
        # The response needs a moment after the server's deadline; no rollout gets more time.
        timeout = left + 2 * SLACK if left == usual else left
        due = time.monotonic() + left
        return await self.isolator.run(operation, self._server, due, *arguments, within=timeout)

    async def _acquire(
        self, lifetime_mins: float, deadline: float, profile: SessionProfile
    ) -> "IsolatedBrowserSession":
        loop = asyncio.get_running_loop()
        try:
            with Limit(max(0.0, deadline - loop.time()) + SLACK):
                await self._acquiring.acquire()
        except TimeoutError:
            raise NoSessionError(
                "no session was requested in time, because other episodes were waiting for one; "
                "use more sessions or fewer concurrent episodes"
            ) from None
        try:
            wait = min(max(0.0, deadline - loop.time()), ALLOCATION_SECONDS)
            lease = await self.ask(
                operations.allocate,
                lifetime_mins,
                wait,
                msgspec.to_builtins(profile),
                within=wait + self.deadline_seconds,
            )
        finally:
            self._acquiring.release()
        return IsolatedBrowserSession(self, lease)


class IsolatedBrowserSession:
    """One session of the browser server, until it is released.

    All methods raise SessionLostError when the session has ended, ServerUnreachableError,
    StepDeadlineError, and as `ProcessIsolator.run`.
    """

    def __init__(self, client: IsolatedBrowserClient, lease: operations.SessionAddress) -> None:
        self.lease = Lease(**lease)
        self._client = client
        self._named = lease

    async def step(
        self,
        command: Command | None = None,
        observe: Observe | None = None,
        *,
        within: float | None = None,
    ) -> StepAnswer:
        """As `BrowserSession.step`."""
        observation = msgspec.to_builtins(observe or Observe())
        seconds = self._seconds(command, within)
        arguments = (self._named, _plain(command), observation)
        packed = await self._client.ask(operations.step, *arguments, within=seconds)
        return msgspec.msgpack.decode(packed, type=StepAnswer)

    async def execute(self, command: Command, *, within: float | None = None) -> dict[str, object]:
        """Carry out a command. Raises CommandError where the page prevents it."""
        seconds = self._seconds(command, within)
        return await self._client.ask(
            operations.execute, self._named, _plain(command), within=seconds
        )

    async def screenshot(
        self,
        mode: InteractionMode = "coordinates",
        format: ImageFormat = "png",  # noqa: A002
    ) -> Picture:
        """A screenshot of the page."""
        data = await self._client.ask(operations.screenshot, self._named, mode, format, within=None)
        return Picture(f"image/{format}", data)

    async def metadata(self) -> Viewport:
        """The size of the viewport."""
        return Viewport(**await self._client.ask(operations.metadata, self._named, within=None))

    async def recording(self, kind: RecordingKind) -> bytes:
        """As `BrowserSession.recording`."""
        return await self._client.ask(operations.recording, self._named, kind, within=None)

    async def storage_state(self) -> StorageState:
        """Cookies and local storage, for the profile of another session."""
        state = await self._client.ask(operations.storage_state, self._named, within=None)
        return msgspec.convert(state, StorageState)

    async def reset(self, *, within: float | None = None) -> None:
        """Release the session; a session that has ended already is ignored."""
        await self._client.ask(operations.release, self._named, within=within)

    def _seconds(self, command: Command | None, within: float | None) -> float:
        seconds = self._client.deadline_seconds if within is None else within
        return seconds + command.duration if isinstance(command, Sleep) else seconds


def _plain(command: Command | None) -> dict[str, dict[str, Any]]:
    return {} if command is None else {command.command: msgspec.to_builtins(command)}


def _reported(performed: operations.OperationResult) -> Exception:
    """The error that the function raised in its worker."""
    kind, message = performed["type"], performed["message"]
    retry_after = performed.get("retry_after")
    if kind == ServerUnreachableError.type:
        return ServerUnreachableError(message, retry_after=retry_after)
    return error_named(kind, message, retry_after)
