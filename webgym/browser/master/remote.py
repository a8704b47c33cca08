"""A node of another process, called over HTTP with the bytes that came.

*How much room it has* it says with every heartbeat and with every answer about a session's
beginning or end; room that was reserved since then is subtracted. Where that was too optimistic the
node refuses at once, and the request goes back to the head of the line.

*Whether it lives.* It is lost when it says nothing for a few seconds, or when nobody listens at its
address. Requests in flight end at once. A session that a client was told is lost stays lost, also
when the node comes back with it: the node is told to close it. All others are valid again, unless
the node was started anew.
"""

import asyncio
import logging
from collections.abc import Mapping
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from rollgym.servers.context import TIMEOUT_HEADER
from rollgym.servers.exchange import JSON, Answer, RefusedRequestError
from rollgym.servers.limit import Limit
from webgym.browser.bookkeeping.calls import Calls
from webgym.browser.bookkeeping.endings import Endings, lost_message, shown_id
from webgym.browser.contract.answers import Lease
from webgym.browser.contract.errors import (
    ErrorBody,
    NoSessionError,
    SessionLostError,
    StepDeadlineError,
)
from webgym.browser.exchange.answer import AVAILABLE_HEADER, RETRY_AFTER
from webgym.browser.exchange.request import Request
from webgym.browser.leases import new_instance_id
from webgym.browser.master.member import Member
from webgym.browser.node import GRACE
from webgym.browser.registration import TOKEN_HEADER, Registered, Registration
from webgym.browser.tasks import Tasks

CONNECT_SECONDS = 3.0
RESET_SECONDS = 10.0
LARGEST_ANSWER = 2**28
SUPERSEDED_BOOTS = 100
_PASSED_ON = frozenset((RETRY_AFTER, "cache-control"))
_ERROR = msgspec.json.Decoder(ErrorBody)
_LOGGER = logging.getLogger(__name__)


class UnreachableError(Exception):
    """The node gave no answer. `refused`: nobody listens at its address."""

    def __init__(self, message: str, *, refused: bool) -> None:
        super().__init__(message)
        self.refused = refused


class RemoteMember(Member):
    """What the master knows of a node that registered."""

    def __init__(self, url: str, token: str | None, http: aiohttp.ClientSession) -> None:
        super().__init__(url)
        self._headers = {} if token is None else {TOKEN_HEADER: token}
        self._http = http
        self._healthy = False
        self._boot = ""
        self._superseded = Endings(SUPERSEDED_BOOTS)
        self._capacity = 0
        self._available = 0
        self._instances: tuple[str, ...] = ()
        self._calls = Calls()
        self._endings = Endings()
        self._tasks = Tasks()
        self.heard_at = 0.0

    @property
    def healthy(self) -> bool:
        return self._healthy

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def room(self) -> int:
        return self._available

    @property
    def instances(self) -> tuple[str, ...]:
        return self._instances

    def heard(self, said: Registration, now: float) -> Registered:
        """Take what the node says of itself; the answer to it.

        Raises RefusedRequestError where another node took over its address.
        """
        if said.boot in self._superseded:
            raise RefusedRequestError(
                409, f"another node was started at {self.url}: give each its own --url"
            )
        if self._boot not in ("", said.boot):
            self._superseded.remember(self._boot, "superseded")
            self._lose_all(f"its node {self.url} was started anew")
        self._boot = said.boot
        self.heard_at = now
        self._capacity, self._available = said.capacity, said.available
        self._instances = said.instances
        if said.leaving:
            self.lose("was stopped")
            return Registered()
        if not self._healthy:
            _LOGGER.info("node %s is there: %d sessions", self.url, said.capacity)
        self._healthy = True
        return Registered(tuple(each for each in said.instances if each in self._endings))

    def lose(self, why: str) -> None:
        """The node is not there; what was asked of it ends now."""
        if self._healthy:
            _LOGGER.warning("node %s %s; its sessions are lost", self.url, why)
        self._healthy = False
        self._calls.interrupt(SessionLostError(f"its node {self.url} {why}"))

    def take(self) -> None:
        self._available -= 1

    def give_back(self) -> None:
        self._available += 1

    async def open(self, lifetime: float, deadline: float, instance_id: str | None = None) -> str:
        # The master makes the identifier up, so that it can end a session of which it was not told.
        named = instance_id or new_instance_id()
        opening = self._tasks.start(self._open(named, lifetime, deadline))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(lambda _: self.drop(named))
            raise

    async def ask(self, request: Request, instance_id: str | None, deadline: float) -> Answer:
        self._check(instance_id)
        now = asyncio.get_running_loop().time()
        try:
            with self._calls.begin(), Limit(deadline - now + 2 * GRACE):
                return await self._send(request, deadline)
        except UnreachableError as error:
            if error.refused:
                self.lose("cannot be reached")
            raise self._lost(instance_id, f"its node {self.url} is gone: {error}") from error
        except SessionLostError as error:
            raise self._lost(instance_id, str(error)) from error
        except TimeoutError as error:
            raise StepDeadlineError(
                f"node {self.url} gave no answer to {request.path} within {deadline - now:.3g} s"
            ) from error

    def drop(self, instance_id: str) -> None:
        self._endings.remember(instance_id, "its client went away before it was told")
        self._tasks.start(self._reset(instance_id))

    async def close(self, seconds: float) -> None:
        """Wait for what is still to be said to the node."""
        await self._tasks.finish(seconds)

    async def _open(self, instance_id: str, lifetime: float, deadline: float) -> str:
        query = {"instance_id": instance_id, "lifetime_mins": lifetime / 60, "wait_seconds": 0}
        request = Request("POST", "/get", urlencode(query))
        began = asyncio.get_running_loop().time()
        seconds = deadline - began
        try:
            with self._calls.begin(), Limit(seconds + 2 * GRACE):
                answer = await self._send(request, deadline)
        except (UnreachableError, SessionLostError, TimeoutError) as error:
            if isinstance(error, UnreachableError) and error.refused:
                self.lose("cannot be reached")
            why = str(error) or f"it gave no answer within {seconds:.3g} s"
            self.failed_to_open(why, began, deadline)
            self.drop(instance_id)
            raise NoSessionError(f"node {self.url} opened no session: {why}") from error
        if not answer.ok:
            why = _message(answer)
            if self._available > 0:
                self.failed_to_open(why, began, deadline)
            raise NoSessionError(f"node {self.url} opened no session: {why}")
        self.opened()
        return msgspec.json.decode(answer.body, type=Lease).instance_id

    async def _reset(self, instance_id: str) -> None:
        """If it fails, the node learns from the answer to its next heartbeat."""
        request = Request("POST", "/reset", urlencode({"instance_id": instance_id}))
        try:
            with Limit(RESET_SECONDS):
                await self._send(request, asyncio.get_running_loop().time() + RESET_SECONDS)
        except (UnreachableError, TimeoutError) as error:
            _LOGGER.debug("session %s could not be reset: %s", shown_id(instance_id), error)

    async def _send(self, request: Request, deadline: float) -> Answer:
        """Raises UnreachableError."""
        left = max(0.0, deadline - asyncio.get_running_loop().time())
        headers = {**self._headers, TIMEOUT_HEADER: f"{left:.3f}", "content-type": JSON}
        url = URL(f"{self.url}{request.path}?{request.query}", encoded=True)
        try:
            async with self._http.request(
                request.method,
                url,
                data=request.body or None,
                headers=headers,
                allow_redirects=False,
            ) as response:
                body = await _bounded_body(response)
                given = {name.lower(): value for name, value in response.headers.items()}
        except (aiohttp.ClientError, OSError) as error:
            refused = isinstance(
                error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError
            )
            raise UnreachableError(f"{type(error).__name__}: {error}", refused=refused) from error
        self.heard_at = asyncio.get_running_loop().time()
        self._learn(given)
        kept = {name: value for name, value in given.items() if name in _PASSED_ON}
        return Answer(response.status, body, given.get("content-type", JSON), headers=kept)

    def _learn(self, headers: Mapping[str, str]) -> None:
        available = headers.get(AVAILABLE_HEADER, "")
        if available.isdecimal():
            self._available = int(available)

    def _check(self, instance_id: str | None) -> None:
        reason = None if instance_id is None else self._endings.reason(instance_id)
        if instance_id is not None and reason is not None:
            raise SessionLostError(lost_message(instance_id, reason))
        if not self._healthy:
            raise self._lost(instance_id, f"its node {self.url} cannot be reached")

    def _lost(self, instance_id: str | None, reason: str) -> SessionLostError:
        """From now on it is lost, whatever becomes of the node."""
        if instance_id is None:
            return SessionLostError(reason)
        self._endings.remember(instance_id, reason)
        return SessionLostError(lost_message(instance_id, reason))

    def _lose_all(self, reason: str) -> None:
        for instance_id in self._instances:
            self._endings.remember(instance_id, reason)
        self._calls.interrupt(SessionLostError(reason))


async def _bounded_body(response: aiohttp.ClientResponse) -> bytes:
    """Raises ClientPayloadError where it is larger than anything that nodes say."""
    length = response.content_length
    if length is not None and length <= LARGEST_ANSWER:
        return await response.read()
    body = bytearray()
    async for block in response.content.iter_any():
        body += block
        if len(body) > LARGEST_ANSWER:
            raise aiohttp.ClientPayloadError(f"the answer is over {LARGEST_ANSWER} bytes long")
    return bytes(body)


def _message(answer: Answer) -> str:
    try:
        return _ERROR.decode(answer.body).message
    except msgspec.DecodeError:
        return f"HTTP {answer.status}: {answer.text[:200]}"
