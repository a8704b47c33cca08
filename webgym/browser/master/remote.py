"""A node of another process, called over HTTP with the bytes of the request.

*Free slots.* The node reports its free slots with every heartbeat and with every answer to `/get`
and `/reset`; slots that were reserved since then are subtracted. If that was too optimistic, the
node rejects at once, and the request goes back to the head of the queue.

*Health.* The node is lost when it sends nothing for a few seconds, or when nothing listens at its
address. Running requests then end at once. A session that was reported as lost stays lost, even if
the node comes back with it: the node gets the order to close it. All other sessions are valid
again, unless the node was restarted.
"""

import asyncio
import logging
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from rollgym.records.decoding import JsonDecoder, decode_json
from rollgym.servers.context import TIMEOUT_HEADER
from rollgym.servers.exchange import JSON, Answer, RefusedRequestError
from rollgym.servers.http_client import bounded_body
from rollgym.servers.limit import Limit
from webgym.browser.calls import BackgroundTasks, InterruptibleCalls
from webgym.browser.contract.answers import Lease
from webgym.browser.contract.errors import (
    BadRequestError,
    ErrorBody,
    NoSessionError,
    SessionLostError,
    StepDeadlineError,
)
from webgym.browser.contract.http import AVAILABLE_HEADER, RETRY_AFTER, BrowserRequest
from webgym.browser.contract.profile import DEFAULT_PROFILE, SessionProfile
from webgym.browser.leases import EndedSessions, lost_message, new_instance_id, shown_id
from webgym.browser.master.nodes import NodeHandle
from webgym.browser.master.registration import TOKEN_HEADER, Registration, RegistrationReply
from webgym.browser.node import GRACE

CONNECT_SECONDS = 3.0
RESET_SECONDS = 10.0
LARGEST_ANSWER = 2**28
SUPERSEDED_BOOTS = 100
_PASSED_ON = frozenset((RETRY_AFTER, "cache-control"))
_ERROR = JsonDecoder(ErrorBody)
_LOGGER = logging.getLogger(__name__)


class NodeUnreachableError(Exception):
    """The node did not answer. `refused` means that nothing listens at its address."""

    def __init__(self, message: str, *, refused: bool) -> None:
        super().__init__(message)
        self.refused = refused


class RemoteNode(NodeHandle):
    """A node that registered."""

    healthy = False
    capacity = 0
    free_slots = 0
    instances: tuple[str, ...] = ()

    def __init__(self, url: str, token: str | None, http: aiohttp.ClientSession) -> None:
        super().__init__(url)
        self._headers = {} if token is None else {TOKEN_HEADER: token}
        self._http = http
        self._boot = ""
        self._superseded = EndedSessions(SUPERSEDED_BOOTS)
        self._calls = InterruptibleCalls()
        self._ended = EndedSessions()
        self._tasks = BackgroundTasks()
        self.last_heard = 0.0

    def update(self, registration: Registration, now: float) -> RegistrationReply:
        """Store the state that the node reports; returns the answer.

        Raises RefusedRequestError if another node took over its address.
        """
        if registration.boot in self._superseded:
            raise RefusedRequestError(
                409, f"another node was started at {self.url}: give each its own --url"
            )
        if self._boot not in ("", registration.boot):
            self._superseded.remember(self._boot, "superseded")
            self._lose_all(f"its node {self.url} was restarted")
        self._boot = registration.boot
        self.last_heard = now
        self.capacity, self.free_slots = registration.capacity, registration.available
        self.instances = registration.instances
        if registration.leaving:
            self.lose("was stopped")
            return RegistrationReply()
        if not self.healthy:
            _LOGGER.info("node %s is up with %d sessions", self.url, registration.capacity)
        self.healthy = True
        return RegistrationReply(
            tuple(each for each in registration.instances if each in self._ended)
        )

    def lose(self, why: str) -> None:
        """The node is down: end the running requests now."""
        if self.healthy:
            _LOGGER.warning("node %s %s; its sessions are lost", self.url, why)
        self.healthy = False
        self._calls.interrupt(SessionLostError(f"its node {self.url} {why}"))

    def reserve(self) -> None:
        self.free_slots -= 1

    def cancel_reservation(self) -> None:
        self.free_slots += 1

    async def open(
        self,
        lifetime: float,
        deadline: float,
        instance_id: str | None = None,
        profile: SessionProfile = DEFAULT_PROFILE,
    ) -> str:
        # The master chooses the identifier, so that it can end a session without having its answer.
        named = instance_id or new_instance_id()
        opening = self._tasks.start(self._open(named, lifetime, deadline, profile))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(lambda _: self.drop(named))
            raise

    async def ask(
        self, request: BrowserRequest, instance_id: str | None, deadline: float
    ) -> Answer:
        self._check(instance_id)
        now = asyncio.get_running_loop().time()
        try:
            with self._calls.begin(), Limit(deadline - now + 2 * GRACE):
                return await self._send(request, deadline)
        except NodeUnreachableError as error:
            if error.refused:
                self.lose("cannot be reached")
            raise self._lost(
                instance_id, f"its node {self.url} cannot be reached: {error}"
            ) from error
        except SessionLostError as error:
            raise self._lost(instance_id, str(error)) from error
        except TimeoutError as error:
            raise StepDeadlineError(
                f"node {self.url} did not answer {request.path} within {deadline - now:.3g} s"
            ) from error

    def drop(self, instance_id: str) -> None:
        self._ended.remember(instance_id, "its client disconnected before it got the answer")
        self._tasks.start(self._reset(instance_id))

    async def close(self, seconds: float) -> None:
        """Wait for the last requests to the node."""
        await self._tasks.finish(seconds)

    async def _open(
        self, instance_id: str, lifetime: float, deadline: float, profile: SessionProfile
    ) -> str:
        query = {"instance_id": instance_id, "lifetime_mins": lifetime / 60, "wait_seconds": 0}
        body = b"" if profile == DEFAULT_PROFILE else msgspec.json.encode(profile)
        request = BrowserRequest("POST", "/get", urlencode(query), body)
        began = asyncio.get_running_loop().time()
        seconds = deadline - began
        try:
            with self._calls.begin(), Limit(seconds + 2 * GRACE):
                answer = await self._send(request, deadline)
        except (NodeUnreachableError, SessionLostError, TimeoutError) as error:
            if isinstance(error, NodeUnreachableError) and error.refused:
                self.lose("cannot be reached")
            why = str(error) or f"it did not answer within {seconds:.3g} s"
            self.failed_to_open(why, began, deadline)
            self.drop(instance_id)
            raise NoSessionError(f"node {self.url} could not open a session: {why}") from error
        if not answer.ok:
            why = _message(answer)
            if answer.status == BadRequestError.status:
                raise BadRequestError(why)
            if self.free_slots > 0:
                self.failed_to_open(why, began, deadline)
            raise NoSessionError(f"node {self.url} could not open a session: {why}")
        self.opened()
        return decode_json(answer.body, Lease).instance_id

    async def _reset(self, instance_id: str) -> None:
        """If it fails, the node gets the order with the answer to its next heartbeat."""
        request = BrowserRequest("POST", "/reset", urlencode({"instance_id": instance_id}))
        try:
            with Limit(RESET_SECONDS):
                await self._send(request, asyncio.get_running_loop().time() + RESET_SECONDS)
        except (NodeUnreachableError, TimeoutError) as error:
            _LOGGER.debug("session %s could not be reset: %s", shown_id(instance_id), error)

    async def _send(self, request: BrowserRequest, deadline: float) -> Answer:
        """Raises NodeUnreachableError."""
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
                body = await bounded_body(response, LARGEST_ANSWER)
                given = {name.lower(): value for name, value in response.headers.items()}
        except (aiohttp.ClientError, OSError) as error:
            refused = isinstance(
                error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError
            )
            raise NodeUnreachableError(
                f"{type(error).__name__}: {error}", refused=refused
            ) from error
        self.last_heard = asyncio.get_running_loop().time()
        available = given.get(AVAILABLE_HEADER, "")
        if available.isdecimal():
            self.free_slots = int(available)
        kept = {name: value for name, value in given.items() if name in _PASSED_ON}
        return Answer(response.status, body, given.get("content-type", JSON), headers=kept)

    def _check(self, instance_id: str | None) -> None:
        reason = None if instance_id is None else self._ended.reason(instance_id)
        if instance_id is not None and reason is not None:
            raise SessionLostError(lost_message(instance_id, reason))
        if not self.healthy:
            raise self._lost(instance_id, f"its node {self.url} cannot be reached")

    def _lost(self, instance_id: str | None, reason: str) -> SessionLostError:
        """Mark a session as lost for good."""
        if instance_id is None:
            return SessionLostError(reason)
        self._ended.remember(instance_id, reason)
        return SessionLostError(lost_message(instance_id, reason))

    def _lose_all(self, reason: str) -> None:
        for instance_id in self.instances:
            self._ended.remember(instance_id, reason)
        self._calls.interrupt(SessionLostError(reason))


def _message(answer: Answer) -> str:
    try:
        return _ERROR.decode(answer.body).message
    except msgspec.DecodeError:
        return f"HTTP {answer.status}: {answer.text[:200]}"
