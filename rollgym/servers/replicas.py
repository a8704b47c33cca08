"""The replicas of one server: several processes or addresses behind one name.

*Choosing.* A new session goes to the replica with the fewest open sessions of this client, among
those that answer; equal ones take turns. It stays there, because its state is there.

*Health.* A replica that gave no answer gets no new sessions until it answers again. Its health is
asked for when there is work for it, at most every few seconds; nothing runs in the background.

*Routes.* Programs that keep cookies but know only one address reach the right replica by a cookie:
each answer that sets cookies also sets one with the number of its replica, and a replica that gets
a request for another one passes it on (`ReplicaRoute`).
"""

import asyncio
import contextvars
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from rollgym.records import RolloutError
from rollgym.servers.exchange import Answer, Request, failure_answer
from rollgym.servers.limit import Limit

if TYPE_CHECKING:
    from rollgym.servers.client import ServerClient

SERVER_ERROR = 500
HEALTH_CHECK_TIMEOUT = 5.0
FIRST_CHECK = 0.25
LONGEST_CHECK = 4.0
_HEALTH = Request("GET", "/healthz")
_NOT_IN_COOKIE_NAMES = re.compile(r"[^A-Za-z0-9_-]")


class NoAnswerError(Exception):
    """The server cannot be reached, or closed the connection before it answered."""


Transport = Callable[[Request, float], Awaitable[Answer]]
"""Sends a request to one server. The caller cancels after these seconds. Raises NoAnswerError."""


class Replica:
    """One of them: how to reach it, its open sessions, and whether it answered last."""

    __slots__ = ("_check_at", "_checking", "_pause", "is_lost", "sessions", "transport")

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.sessions = 0
        self.is_lost = False
        self._pause = FIRST_CHECK
        self._check_at = 0.0
        self._checking: asyncio.Task[bool] | None = None

    async def send(self, request: Request, seconds: float) -> Answer:
        """Send a request, and notice where there is no answer. Raises NoAnswerError."""
        try:
            answer = await self.transport(request, seconds)
        except NoAnswerError:
            self.is_lost, self._check_at = True, 0.0
            raise
        self.is_lost, self._pause = False, FIRST_CHECK
        return answer

    async def check(self) -> bool:
        """Ask for its health; whether it can work."""
        try:
            with Limit(HEALTH_CHECK_TIMEOUT):
                answer = await self.send(_HEALTH, HEALTH_CHECK_TIMEOUT)
        except (NoAnswerError, TimeoutError):
            return False
        return answer.status < SERVER_ERROR

    def check_soon(self) -> None:
        """Ask for the health of a lost replica, unless that was done a moment ago."""
        loop = asyncio.get_running_loop()
        if self._checking is not None or loop.time() < self._check_at:
            return
        # On behalf of all rollouts, not of the first.
        context = contextvars.Context()
        self._checking = loop.create_task(self.check(), name="health check", context=context)
        self._checking.add_done_callback(self._checked)

    def move(self, transport: Transport) -> None:
        """Another process took its place, at another address."""
        self.transport, self.is_lost, self._pause = transport, False, FIRST_CHECK

    def _checked(self, _: "asyncio.Task[bool]") -> None:
        self._checking = None
        self._check_at = asyncio.get_running_loop().time() + self._pause
        self._pause = min(2 * self._pause, LONGEST_CHECK)


class Replicas:
    """All replicas of a server, in the order of their numbers."""

    def __init__(self, transports: Sequence[Transport]) -> None:
        self.all = [Replica(transport) for transport in transports]
        self._turn = os.getpid()  # so that many processes do not begin with the same one

    def choose(self) -> Replica:
        """The replica for a new session."""
        if len(self.all) == 1:
            return self.all[0]
        answering = []
        for replica in self.all:
            if replica.is_lost:
                replica.check_soon()
            else:
                answering.append(replica)
        candidates = answering or self.all
        self._turn += 1
        start = self._turn % len(candidates)
        turns = candidates[start:] + candidates[:start]
        return min(turns, key=lambda replica: replica.sessions)

    def number_in(self, cookie: str) -> int | None:
        """The number of the replica that a cookie names; None where there is none."""
        known = cookie.isdecimal() and len(cookie) < 6 and int(cookie) < len(self.all)
        return int(cookie) if known else None

    async def any_answers(self) -> bool:
        """Ask all for their health; whether one of them can work."""
        return any(await asyncio.gather(*(replica.check() for replica in self.all)))


def route_cookie(name: str) -> str:
    """The name of the cookie that says at which replica of a server a session is."""
    return f"replica_{_NOT_IN_COOKIE_NAMES.sub('_', name)}"


class ReplicaRoute:
    """The place of a replica among those of its server: it marks sessions, and passes requests on.

    `client` reaches all of them.
    """

    def __init__(self, client: "ServerClient", number: int) -> None:
        self._client = client
        self._number = number
        self._cookie = route_cookie(client.name)

    def mark(self, answer: Answer) -> Answer:
        """The answer, whose session is at this replica if it has one."""
        if not answer.cookies or self._cookie in answer.cookies:
            return answer
        cookies = {**answer.cookies, self._cookie: str(self._number)}
        return msgspec.structs.replace(answer, cookies=cookies)

    async def pass_on(self, request: Request) -> Answer | None:
        """The answer of the replica that has the session; None where this one has it.

        Where that one gives no answer, its session is lost.
        """
        named = self._client.replicas.number_in(request.cookies.get(self._cookie, ""))
        if named is None or named == self._number:
            return None
        other = self._client.one(request.cookies)
        try:
            answer = await other.forward(request)
        except RolloutError as error:
            return failure_answer(error)
        headers = {name: text for name, text in answer.headers.items() if _is_ours(name)}
        return msgspec.structs.replace(answer, headers=headers)


def _is_ours(header: str) -> bool:
    return header.startswith("x-rollgym-") or header == "retry-after"
