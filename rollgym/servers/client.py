"""Calling a server: one client over two transports, and waiting for a server to come back.

In one process the request is handed to the server object; `Http` (`http_client.py`) writes it to a
socket, and only a process that uses it imports aiohttp, which takes a tenth of a second. The client
promises the same for both: an answer, or a typed error when there is none in time or when the
server reports a failure. Cancelling a caller cancels the work it requested, over either transport.

`RecoveryWait` is for a server that died and is being restarted. Until it is back, every rollout
sent to it would fail within a millisecond, and a whole dataset would be used up in the time of a
restart. So the first rollout that cannot reach the server checks its health until it answers, for a
bounded time, and the others wait with it.
"""

import asyncio
import contextvars
from asyncio import get_running_loop
from collections.abc import Awaitable, Mapping, Sequence
from itertools import count
from typing import Protocol

import msgspec

from rollgym.engine import Backoff
from rollgym.records import DeadlineError, EnvironmentSessionError, RolloutError, Row
from rollgym.records.failure import shorten
from rollgym.servers.context import seconds_left
from rollgym.servers.exchange import Answer, CookieJar, Request, complete, failure_in
from rollgym.servers.limit import Limit
from rollgym.servers.replicas import NoAnswerError, Replica, Replicas, Transport, route_cookie

LONGEST_WAIT = 3600.0
EXCERPT = 500
NO_COOKIES: Mapping[str, str] = {}
_REJECTED = frozenset({400, 401, 403, 405, 413, 415, 422})
"""The other side rejects the request itself, and would reject it again."""
PAUSES = Backoff(0.1, maximum=2.0, jitter=0.0)


class RequestHandler(Protocol):
    """A server object; its method `handle` is the transport in the same process."""

    def handle(self, request: Request, seconds: float) -> Awaitable[Answer]: ...


class ServerClient:
    """The client of one server, which may have several replicas."""

    def __init__(self, name: str, transports: Sequence[Transport]) -> None:
        self.name = name
        self.replicas = Replicas(transports)
        self.whole = self
        """The client of all replicas."""
        self._send: Transport | None = transports[0] if len(transports) == 1 else None
        """What sends every request, where there is no choice."""

    def one(self, cookies: Mapping[str, str] = NO_COOKIES) -> "ServerClient":
        """A client of one replica: that of the session in the cookies, or one for a new session.

        The session counts as open there while the client is referenced.
        """
        if self._send is not None:
            return self
        named = self.replicas.number_in(cookies.get(route_cookie(self.name), ""))
        replica = self.replicas.choose() if named is None else self.replicas.all[named]
        return _ReplicaClient(self, replica)

    def move(self, transports: Sequence[Transport]) -> None:
        """Replicas have other addresses now; their number stays."""
        for replica, transport in zip(self.replicas.all, transports, strict=True):
            replica.move(transport)
        if self._send is not None:
            self._send = transports[0]

    @property
    def is_lost(self) -> bool:
        """Whether this is one of several replicas, and gave no answer last."""
        return False

    async def call(
        self,
        path: str,
        body: bytes | Row,
        *,
        error: type[RolloutError],
        jar: CookieJar | None = None,
        within: float = LONGEST_WAIT,
        grace: float = 0.0,
        method: str = "POST",
        any_status: bool = False,
    ) -> Answer:
        """Send a request and return the answer; with `any_status` also one outside of the 200s.

        The server has `grace` more seconds than the deadline that it gets, for an answer that says
        what it had done when its time was over.

        Raises `error` when there is no answer `within` these seconds or its status is not allowed,
        DeadlineError when there is none before the rollout's deadline, and the server's error where
        it reports a failure.
        """
        # A copy: parallel calls share the jar, and their answers change it.
        cookies = dict(jar.cookies) if jar else NO_COOKIES
        if isinstance(body, bytes):
            request = Request(method, path, body, cookies)
        else:
            request = Request(method, path, body.raw, cookies, body)
        loop = get_running_loop()
        seconds = seconds_left(within, loop)
        if seconds <= 0:
            raise DeadlineError(f"{path} was not sent to {self.name}: the deadline has passed")
        try:
            longest = seconds + grace
            with Limit(longest, loop):
                answer = await (self._send or self.replicas.choose().send)(request, longest)
                if answer.parts is not None:
                    answer = await complete(answer)
        except NoAnswerError as cause:
            raise error(f"{self.name} gave no answer: {cause}", retryable=True) from cause
        except TimeoutError as cause:
            raised = error if seconds >= within else DeadlineError
            raise raised(
                f"{self.name} gave no answer to {path} within {seconds:g} s", retryable=True
            ) from cause
        if jar and answer.cookies:
            jar.keep(answer.cookies)
        if answer.status < 300:
            return answer
        failure = failure_in(answer)
        if failure:
            raise failure
        if not any_status:
            raise error(
                f"{self.name} answered {path} with HTTP {answer.status}: "
                f"{shorten(answer.text, EXCERPT)}",
                retryable=_retryable(answer.status),
                retry_after=retry_after(answer.headers),
            )
        return answer

    async def any_answers(self) -> bool:
        """Ask for the health; whether a replica can work."""
        return await self.replicas.any_answers()

    async def forward(self, request: Request) -> Answer:
        """Pass on a request that another server got. Raises EnvironmentSessionError."""
        jar = CookieJar(request.cookies)
        return await self.call(
            request.path,
            request.body,
            error=EnvironmentSessionError,
            jar=jar,
            method=request.method,
            any_status=True,
        )

    async def post(self, path: str, value: object, jar: CookieJar | None = None) -> Answer:
        """Send a value as JSON; for tests and small programs."""
        encoded = msgspec.json.encode(value)
        return await self.call(path, encoded, error=RolloutError, jar=jar, any_status=True)


class _ReplicaClient(ServerClient):
    """The client of one of several replicas."""

    def __init__(self, whole: ServerClient, replica: Replica) -> None:
        self.name = whole.name
        self.whole = whole
        self._replica = replica
        self._send = replica.send
        replica.sessions += 1

    def __del__(self) -> None:
        self._replica.sessions -= 1

    def one(self, cookies: Mapping[str, str] = NO_COOKIES) -> ServerClient:
        return self

    @property
    def is_lost(self) -> bool:
        return self._replica.is_lost

    async def any_answers(self) -> bool:
        return await self._replica.check()


def _retryable(status: int) -> bool | None:
    """Whether a later attempt can help after this status; None where the failure kind decides."""
    if status in _REJECTED:
        return False
    return True if status >= 500 or status == 429 else None


def connect(server: RequestHandler, name: str = "server") -> ServerClient:
    """A client of a server object of this process."""
    return ServerClient(name, [server.handle])


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a `Retry-After` header asks for."""
    try:
        return float(headers.get("retry-after", ""))
    except ValueError:
        return None


class RecoveryWait:
    """Waits for servers that do not answer to come back, for at most `seconds` each."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._seconds = seconds
        self._checks: dict[ServerClient, asyncio.Task[None]] = {}

    async def wait_for(self, client: ServerClient, error: RolloutError) -> None:
        """Return when it answers again (of several replicas: one of them), or when time is over.

        Returns at once for an error that does not mean that the server is unreachable.
        """
        if not isinstance(error.__cause__, NoAnswerError):
            return
        check = self._checks.get(client)
        if check is None:
            check = asyncio.create_task(
                self._check(client),
                name=f"health check of {client.name}",
                context=contextvars.Context(),  # on behalf of all rollouts, not of the first
            )
            self._checks[client] = check
            check.add_done_callback(lambda _: self._checks.pop(client, None))
        await asyncio.shield(check)

    async def _check(self, client: ServerClient) -> None:
        deadline = asyncio.get_running_loop().time() + self._seconds
        for number in count(1):
            pause = PAUSES.delay(number, 0)
            if asyncio.get_running_loop().time() + pause > deadline:
                return
            await asyncio.sleep(pause)
            if await client.any_answers():
                return
