"""Acquiring and releasing browser sessions: what all clients of the browser server share.

A client acquires a session, waiting where all are in use, and releases it however its user ends,
also by cancellation. A release is bounded in time and does not fail: a session that could not be
released expires.
"""

import asyncio
import logging
import os
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Any, Generic, Protocol, TypeVar

from rollgym.closing import AsyncClosable
from rollgym.servers.context import after_the_deadline, seconds_left
from webgym.browser.contract.answers import Lease
from webgym.browser.contract.errors import NoSessionError, ServerUnreachableError
from webgym.browser.contract.profile import SessionProfile

DEFAULT_URL = "http://localhost:7000"
TOKEN_VARIABLE = "CPU_CLUSTER_TOKEN"  # noqa: S105 - the name of the variable, not the token
RELEASE_SECONDS = 10.0
RELEASE_PAUSE = 1.0
SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
MOST_REQUESTS = 1000
"""How often one caller asks for a session, whatever the server suggests."""

_LOGGER = logging.getLogger("webgym.client")


class ReleasableSession(Protocol):
    """A session of any client."""

    @property
    def lease(self) -> Lease: ...

    async def reset(self, *, within: float | None = None) -> None: ...


SessionT = TypeVar("SessionT", bound=ReleasableSession)


def request_headers(token: str | None) -> dict[str, str]:
    """The headers of every request. Without a token that of CPU_CLUSTER_TOKEN is sent, if set."""
    headers = {"x-client-id": token_hex(8)}
    token = (token or os.environ.get(TOKEN_VARIABLE, "")).strip()
    if token:
        headers["x-api-key"] = token
    return headers


class SessionClient(ABC, Generic[SessionT], AsyncClosable):
    """The part of a client that acquires and releases sessions. Use a client as `async with`."""

    def __init__(self, profile: SessionProfile) -> None:
        self._profile = profile
        self._releases: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Wait for the releases that are under way, then close the connections."""
        await asyncio.gather(*self._releases, return_exceptions=True)

    async def get(
        self,
        lifetime_mins: float = 60,
        wait_seconds: float = 60,
        profile: SessionProfile | None = None,
    ) -> SessionT:
        """Acquire a session, waiting at most `wait_seconds`. Release it with `release` or `reset`.

        `profile` says how it presents itself and what it starts with; by default as the client.

        Raises NoSessionError where none was free in time, ServerUnreachableError,
        UnauthorizedError, BadRequestError, StepDeadlineError.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds_left(wait_seconds)
        backoff = SHORTEST_PAUSE
        for attempt in range(1, MOST_REQUESTS + 1):
            try:
                return await self._acquire(lifetime_mins, deadline, profile or self._profile)
            except (NoSessionError, ServerUnreachableError) as error:
                backoff = min(LONGEST_PAUSE, 2 * backoff)
                wanted = error.retry_after
                pause = backoff if wanted is None else max(SHORTEST_PAUSE, wanted)
                if attempt == MOST_REQUESTS or loop.time() + pause >= deadline:
                    raise
            # Clients that were turned away together do not come back at the same moment.
            spread = pause * random.uniform(1, 1.25)  # noqa: S311 - it decides no result
            await asyncio.sleep(min(spread, deadline - loop.time()))
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def session(
        self,
        lifetime_mins: float = 60,
        wait_seconds: float = 60,
        profile: SessionProfile | None = None,
    ) -> AsyncIterator[SessionT]:
        """A session for the length of the block. Raises as `get`."""
        session = await self.get(lifetime_mins, wait_seconds, profile)
        try:
            yield session
        finally:
            await self.release(session)

    async def release(self, session: SessionT) -> None:
        """Release a session. Raises nothing but cancellation, which does not stop the release."""
        task = asyncio.create_task(_release(session), name="release a browser session")
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)
        await asyncio.shield(task)

    @abstractmethod
    async def _acquire(
        self, lifetime_mins: float, deadline: float, profile: SessionProfile
    ) -> SessionT:
        """Ask for a session once. Raises as `get`."""


async def _release(session: ReleasableSession) -> None:
    """Wait for a server that restarts: without the release the session would stay in use."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + RELEASE_SECONDS
    try:
        with after_the_deadline():
            while True:
                try:
                    return await session.reset(within=deadline - loop.time())
                except ServerUnreachableError:
                    if loop.time() + RELEASE_PAUSE >= deadline:
                        raise
                await asyncio.sleep(RELEASE_PAUSE)
    except Exception as error:  # noqa: BLE001 - the session expires, and its work is done
        _LOGGER.warning("session %s was not released: %s", session.lease.instance_id, error)


class SessionSource(Protocol):
    """Anything that sessions are acquired from and released to."""

    async def get(self, lifetime_mins: float = 60, wait_seconds: float = 60) -> Any: ...

    async def release(self, session: Any) -> None: ...


class TrackedSessions:
    """Sessions of a client, with bounds on how many are acquired and released at a time.

    It knows which sessions are not released yet, and releases them in the background.
    """

    def __init__(self, client: SessionSource, acquiring: int, releasing: int) -> None:
        self._client = client
        self._acquiring = asyncio.Semaphore(acquiring)
        self._releasing = asyncio.Semaphore(releasing)
        self._open: dict[int, Any] = {}
        self._releases: set[asyncio.Task[None]] = set()

    async def get(self, lifetime_mins: float = 60, wait_seconds: float = 60) -> Any:
        """As `SessionClient.get`. The wait for a turn to ask counts, too."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_seconds
        try:
            async with asyncio.timeout_at(deadline):
                await self._acquiring.acquire()
        except TimeoutError as error:
            raise NoSessionError(
                f"no session was requested within {wait_seconds:g} s: too many requests were "
                "waiting; raise http_pools.allocate"
            ) from error
        try:
            session = await self._client.get(lifetime_mins, max(0.0, deadline - loop.time()))
        finally:
            self._acquiring.release()
        self._open[id(session)] = session
        return session

    async def release(self, session: Any) -> None:
        """Start to release a session; the caller does not wait for the end of it."""
        if self._open.pop(id(session), None) is not None:
            releasing = asyncio.create_task(self._release(session), name="release a session")
            self._releases.add(releasing)
            releasing.add_done_callback(self._releases.discard)

    async def release_all(self, *, abandoned: bool) -> None:
        """Wait for all releases; with `abandoned`, release the sessions still in use as well."""
        for session in list(self._open.values()) if abandoned else ():
            await self.release(session)
        await asyncio.gather(*self._releases)

    async def _release(self, session: Any) -> None:
        async with self._releasing:
            await self._client.release(session)
