"""Browser requests in worker processes: what breaks there breaks one episode, never the run.

*Why.* What a page looks like comes from strangers: megabytes of text, broken pictures, answers
that make a reader crash or loop. With `env_config.isolation: process` all of it is received and
read in workers, over `webgym.environment.pickleable_http_functions`. A worker that dies, hangs or
reaches its memory ceiling is killed and replaced, and the call that it had becomes a typed failure
of its rollout, which is tried again:

=====================================  ============================================
the worker dies                        BrowserError: the step may have been carried out
it gives no answer in time             DeadlineError
its memory ceiling is reached          BrowserError
none is free, none can be started      BrowserUnavailableError
=====================================  ============================================

*Waiting for a browser* can take long, and a worker that waits can do nothing else. So only half of
the workers may be asking for a session at a time, for a few seconds each; those who hold a session
always find a worker to act, and to give it back.
"""

import asyncio
import logging
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Any, TypeVar

import msgspec

from rollgym.records import (
    BrowserError,
    BrowserUnavailableError,
    DeadlineError,
    RolloutError,
)
from rollgym.servers.context import after_the_deadline, seconds_left
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
from webgym.browser.contract.answers import ImageFormat, Lease, Observe, Picture, StepAnswer
from webgym.browser.contract.commands import Command, InteractionMode, Sleep
from webgym.browser.contract.errors import (
    BadRequestError,
    NoSessionError,
    ServerUnreachableError,
    StepDeadlineError,
    error_named,
)
from webgym.browser.reading import SLACK
from webgym.environment import pickleable_http_functions as operations
from webgym.environment.actions import Viewport
from webgym.environment.client import (
    DEFAULT_URL,
    LONGEST_PAUSE,
    RELEASE_SECONDS,
    SHORTEST_PAUSE,
    TOKEN_VARIABLE,
)

WORKERS = 4
MEMORY_BYTES = 1 << 30
QUEUE_LIMIT = 10_000
START_SECONDS = 30.0
ALLOCATION_SECONDS = 5.0
"""How long a worker waits for a session before another may ask."""
_QUEUE_SLACK = 0.25

T = TypeVar("T")
log = logging.getLogger(__name__)


class ProcessIsolator:
    """Runs functions of modules in worker processes that are watched. Use it as `async with`.

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

    async def __aenter__(self) -> "ProcessIsolator":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Kill the workers; calls in progress raise."""
        await self._workers.close()

    async def run(self, operation: Callable[..., T], *arguments: object, within: float) -> T:
        """What a function of a module returns for plain arguments, in at most `within` seconds.

        Raises the errors of the contract that the function raises, and those of the table above;
        BadRequestError for arguments that cannot be sent; RolloutError for a bug in the function.
        """
        name = f"{operation.__module__}:{operation.__qualname__}"
        if within <= 0:
            raise StepDeadlineError(f"there was no time left for {operation.__name__}")
        try:
            with Limit(within + _QUEUE_SLACK):
                performed: operations.Performed = await self._workers.call(
                    name, list(arguments), timeout=within, wait_timeout=within
                )
        except TimeoutError as error:
            raise DeadlineError(
                f"{operation.__name__} was not done within {within:.1f} s: its worker was killed"
            ) from error
        except IsolationError as error:
            raise self._failure(operation.__name__, error) from error
        if "type" in performed:
            raise _reported(performed)
        value: T = performed["value"]
        return value

    def _failure(self, what: str, error: IsolationError) -> Exception:
        """Whose doing it was, in the terms of a rollout."""
        match error:
            case CallTimeoutError():
                self._note_loss(what, error)
                return DeadlineError(str(error))
            case NoFreeWorkerError() | WorkerStartError() | WorkersClosedError():
                return BrowserUnavailableError(f"no worker process for {what}: {error}")
            case ArgumentsError():
                return BadRequestError(str(error))
            case CallFailedError(error_type="MemoryError"):
                return BrowserError(f"the memory of a worker did not suffice for {what}: {error}")
            case CallFailedError():
                return RolloutError(str(error))
            case _:
                self._note_loss(what, error)
                return BrowserError(f"the worker of {what} was lost: {error}")

    def _note_loss(self, what: str, error: IsolationError) -> None:
        self.lost += 1
        log.warning("a worker was lost at %s and is replaced: %s", what, error)


class IsolatedBrowserClient:
    """`BrowserClient` for episodes, with every request made in a worker process.

    Without a token that of CPU_CLUSTER_TOKEN is sent, if any; workers get it with each call, not
    by their environment. Use it as `async with`.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        deadline_seconds: float = 60.0,
        *,
        workers: int = WORKERS,
        memory_bytes: int | None = MEMORY_BYTES,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is no address of a browser server: give http://HOST:PORT")
        headers = {"x-client-id": token_hex(8)}
        token = (token or os.environ.get(TOKEN_VARIABLE, "")).strip()
        if token:
            headers["x-api-key"] = token
        self.deadline_seconds = deadline_seconds
        self.isolator = ProcessIsolator(workers=workers, memory_bytes=memory_bytes)
        self._server: operations.Server = {"url": url.rstrip("/"), "headers": headers}
        self._asking = asyncio.Semaphore(max(1, workers // 2))
        self._releases: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "IsolatedBrowserClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for the sessions that are being given back, then end the workers."""
        await asyncio.gather(*self._releases, return_exceptions=True)
        await self.isolator.close()

    async def get(
        self, lifetime_mins: float = 60, wait_seconds: float = 60
    ) -> "IsolatedBrowserSession":
        """Take a session, waiting for one for at most `wait_seconds`. Give it back with `release`.

        Raises NoSessionError where none was free in time, ServerUnreachableError,
        UnauthorizedError, BadRequestError, StepDeadlineError, and as `ProcessIsolator.run`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds_left(wait_seconds)
        pause = SHORTEST_PAUSE
        while True:
            try:
                return await self._ask_for_session(lifetime_mins, deadline)
            except (NoSessionError, ServerUnreachableError) as error:
                pause = min(LONGEST_PAUSE, 2 * pause)
                asked_for = error.retry_after
                wait = pause if asked_for is None else max(SHORTEST_PAUSE, asked_for)
                if loop.time() + wait >= deadline:
                    raise
            # Not all who were sent away come back at the same moment.
            spread = wait * random.uniform(1, 1.25)  # noqa: S311 - it decides no result
            await asyncio.sleep(min(spread, deadline - loop.time()))

    @asynccontextmanager
    async def session(
        self, lifetime_mins: float = 60, wait_seconds: float = 60
    ) -> "AsyncIterator[IsolatedBrowserSession]":
        """A session for the length of the block. Raises as `get`."""
        session = await self.get(lifetime_mins, wait_seconds)
        try:
            yield session
        finally:
            await self.release(session)

    async def release(self, session: "IsolatedBrowserSession") -> None:
        """Give a session back. Raises nothing but cancellation, which does not stop it."""
        task = asyncio.create_task(self._release(session), name="give a browser session back")
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)
        await asyncio.shield(task)

    async def ask(self, operation: Callable[..., T], *arguments: Any, within: float | None) -> T:
        """Run an operation on the server, inside the deadline of the rollout we work for."""
        usual = self.deadline_seconds if within is None else within
        left = seconds_left(usual)
        # The server answers in time, and its answer takes a moment; but no rollout gets more time.
        patience = left + 2 * SLACK if left == usual else left
        due = time.monotonic() + left
        return await self.isolator.run(operation, self._server, due, *arguments, within=patience)

    async def _ask_for_session(
        self, lifetime_mins: float, deadline: float
    ) -> "IsolatedBrowserSession":
        loop = asyncio.get_running_loop()
        try:
            with Limit(max(0.0, deadline - loop.time()) + SLACK):
                await self._asking.acquire()
        except TimeoutError:
            raise NoSessionError(
                "no session could be asked for in time: others were waiting for one; use more "
                "sessions or fewer episodes at the same time"
            ) from None
        try:
            wait = min(max(0.0, deadline - loop.time()), ALLOCATION_SECONDS)
            lease = await self.ask(
                operations.allocate, lifetime_mins, wait, within=wait + self.deadline_seconds
            )
        finally:
            self._asking.release()
        return IsolatedBrowserSession(self, lease)

    async def _release(self, session: "IsolatedBrowserSession") -> None:
        try:
            with after_the_deadline():
                await session.reset(within=RELEASE_SECONDS)
        except Exception as error:  # noqa: BLE001 - the session expires, and its work is done
            log.warning("session %s was not given back: %s", session.lease.instance_id, error)


class IsolatedBrowserSession:
    """One session of the browser server, until it is given back.

    All methods raise SessionLostError when it is gone, ServerUnreachableError, StepDeadlineError,
    and as `ProcessIsolator.run`.
    """

    def __init__(self, client: IsolatedBrowserClient, lease: operations.Session) -> None:
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
        seen = msgspec.to_builtins(observe or Observe())
        seconds = self._seconds(command, within)
        arguments = (self._named, _plain(command), seen)
        packed = await self._client.ask(operations.step, *arguments, within=seconds)
        return msgspec.msgpack.decode(packed, type=StepAnswer)

    async def execute(self, command: Command, *, within: float | None = None) -> dict[str, object]:
        """Carry out a command. Raises CommandError where the page did not let it happen."""
        seconds = self._seconds(command, within)
        return await self._client.ask(
            operations.execute, self._named, _plain(command), within=seconds
        )

    async def screenshot(
        self,
        mode: InteractionMode = "coordinates",
        format: ImageFormat = "png",  # noqa: A002
    ) -> Picture:
        """What the page looks like."""
        data = await self._client.ask(operations.screenshot, self._named, mode, format, within=None)
        return Picture(f"image/{format}", data)

    async def metadata(self) -> Viewport:
        """The size of its viewport."""
        return Viewport(**await self._client.ask(operations.metadata, self._named, within=None))

    async def reset(self, *, within: float | None = None) -> None:
        """Give the session back; nothing happens where it is gone already."""
        await self._client.ask(operations.release, self._named, within=within)

    def _seconds(self, command: Command | None, within: float | None) -> float:
        seconds = self._client.deadline_seconds if within is None else within
        return seconds + command.duration if isinstance(command, Sleep) else seconds


def _plain(command: Command | None) -> dict[str, dict[str, Any]]:
    return {} if command is None else {command.command: msgspec.to_builtins(command)}


def _reported(performed: operations.Performed) -> Exception:
    """The error that the function raised in its worker."""
    kind, message = performed["type"], performed["message"]
    retry_after = performed.get("retry_after")
    if kind == ServerUnreachableError.type:
        return ServerUnreachableError(message, retry_after=retry_after)
    return error_named(kind, message, retry_after)
