"""A node as its master sees it, in this process or behind a URL.

`reserve` reserves a slot for one session, so that two clients never get the same slot; `open` uses
the reservation up, whether it succeeds or fails.

Requests to a node are the same in both cases: the node of this process is called with the requests
that a remote one gets, so both follow one contract.
"""

import asyncio
from abc import ABC, abstractmethod

from rollgym.engine import Backoff
from rollgym.servers.exchange import Answer, json_answer
from webgym.browser.contract.answers import NodeInfo, Observe
from webgym.browser.contract.commands import read_command, read_optional_command
from webgym.browser.contract.errors import NoSessionError
from webgym.browser.contract.http import (
    DEADLINE_KEY,
    OBSERVE_KEY,
    BrowserRequest,
    RecordingQuery,
    ScreenshotQuery,
    SessionReference,
    picture_answer,
    read_object,
    read_query,
    read_session_reference,
    read_step,
    success,
)
from webgym.browser.contract.profile import DEFAULT_PROFILE, RECORDING_TYPES, SessionProfile
from webgym.browser.master.registration import node_hash
from webgym.browser.node import BrowserNode

_COOLDOWN = Backoff(0.25, maximum=10.0, jitter=0.0)
FAIR_SECONDS = 2.0
"""A node that opened no session within a shorter time is not put on cooldown."""
CLOSE_TO_DEADLINE = 0.05
"""A timer may fire this much early."""
_EXECUTE_KEYS = frozenset({DEADLINE_KEY})
_STEP_KEYS = frozenset({DEADLINE_KEY, OBSERVE_KEY})


class NodeHandle(ABC):
    """One node, as the master uses it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.hash = node_hash(url)
        self._failures = 0
        self._cooldown_until = 0.0
        self.open_failure: str | None = None

    @property
    @abstractmethod
    def healthy(self) -> bool: ...

    @property
    @abstractmethod
    def capacity(self) -> int: ...

    @property
    @abstractmethod
    def free_slots(self) -> int:
        """How many sessions it can open, without the reserved slots."""

    @abstractmethod
    def reserve(self) -> None:
        """Reserve a slot for one session."""

    @abstractmethod
    def cancel_reservation(self) -> None:
        """Release a reserved slot."""

    @abstractmethod
    async def open(
        self,
        lifetime: float,
        deadline: float,
        instance_id: str | None = None,
        profile: SessionProfile = DEFAULT_PROFILE,
    ) -> str:
        """Open a session in a reserved slot; returns its identifier.

        Raises NoSessionError, and BadRequestError if the profile cannot be used. If the
        caller is cancelled, the session is closed.
        """

    @abstractmethod
    async def ask(
        self, request: BrowserRequest, instance_id: str | None, deadline: float
    ) -> Answer:
        """Answer a request to this node. Raises the errors of the contract."""

    @abstractmethod
    def drop(self, instance_id: str) -> None:
        """End a session whose client did not get the answer."""

    @property
    @abstractmethod
    def instances(self) -> tuple[str, ...]: ...

    def can_open(self, now: float) -> bool:
        return self.healthy and self.free_slots > 0 and now >= self._cooldown_until

    def failed_to_open(self, why: str, began: float, deadline: float) -> None:
        """Start a cooldown, longer each time: the node reports free slots, but opens no session.

        Not if the client gave it too little time, because other clients would have to wait.
        """
        now = asyncio.get_running_loop().time()
        if deadline - began < FAIR_SECONDS and deadline - now < CLOSE_TO_DEADLINE:
            return
        self.open_failure = why
        if now >= self._cooldown_until:
            self._failures += 1
            self._cooldown_until = now + _COOLDOWN.delay(self._failures, 0)

    def opened(self) -> None:
        self._failures = 0
        self.open_failure = None

    def info(self) -> NodeInfo:
        return NodeInfo(
            self.url,
            self.hash,
            self.healthy,
            self.capacity,
            max(0, self.free_slots),
            self.instances,
        )


class LocalNode(NodeHandle):
    """The node of this process, called directly."""

    healthy = True

    def __init__(self, url: str, node: BrowserNode) -> None:
        super().__init__(url)
        self._node = node
        self._reserved = 0

    @property
    def capacity(self) -> int:
        return self._node.capacity

    @property
    def free_slots(self) -> int:
        return self._node.available - self._reserved

    @property
    def instances(self) -> tuple[str, ...]:
        return self._node.instances

    def reserve(self) -> None:
        self._reserved += 1

    def cancel_reservation(self) -> None:
        self._reserved -= 1

    async def open(
        self,
        lifetime: float,
        deadline: float,
        instance_id: str | None = None,
        profile: SessionProfile = DEFAULT_PROFILE,
    ) -> str:
        self._reserved -= 1
        began = asyncio.get_running_loop().time()
        try:
            instance_id = await self._node.get(lifetime, deadline, instance_id, profile)
        except NoSessionError as error:
            self.failed_to_open(str(error), began, deadline)
            raise
        self.opened()
        return instance_id

    async def ask(
        self, request: BrowserRequest, instance_id: str | None, deadline: float
    ) -> Answer:
        match request.path:
            case "/step":
                return await self._step(request)
            case "/execute":
                return await self._execute(request)
            case "/screenshot":
                return await self._screenshot(request)
            case "/recording":
                return await self._recording(request)
        return await self._ask_by_query(request)

    def drop(self, instance_id: str) -> None:
        self._node.end(instance_id, "its client disconnected before it got the answer")

    async def _step(self, request: BrowserRequest) -> Answer:
        step = read_step(request)
        command = read_optional_command(read_object(request.body), _STEP_KEYS)
        until = request.until(step.deadline_seconds)
        answer = await self._node.call(
            step.session, until, lambda session: session.step(command, step.observe, until)
        )
        return json_answer(answer)

    async def _ask_by_query(self, request: BrowserRequest) -> Answer:
        """Answer a request whose only arguments are a session and a deadline."""
        reference = read_query(request.query, SessionReference)
        session, until = reference.session, request.until(reference.deadline_seconds)
        match request.path:
            case "/storage_state":
                state = await self._node.call(
                    session, until, lambda each: each.storage_state(until)
                )
                return json_answer(state)
            case "/reset":
                note = await self._node.reset(session)
                return success() if note is None else success(note=note)
            case "/metadata":
                return json_answer(self._node.viewport(session))
            case _:
                left = round(self._node.seconds_left(session), 1)
                return success(instance_id=session, node=self.hash, expires_in_seconds=left)

    async def _execute(self, request: BrowserRequest) -> Answer:
        reference = read_session_reference(request)
        command = read_command(read_object(request.body), _EXECUTE_KEYS)
        until = request.until(reference.deadline_seconds)
        result = await self._node.call(
            reference.session, until, lambda session: session.execute(command, until)
        )
        return json_answer(result)

    async def _recording(self, request: BrowserRequest) -> Answer:
        wanted = read_query(request.query, RecordingQuery)
        until = request.until(wanted.deadline_seconds)
        data = await self._node.call(
            wanted.session, until, lambda session: session.recording(wanted.kind, until)
        )
        return Answer(200, data, RECORDING_TYPES[wanted.kind])

    async def _screenshot(self, request: BrowserRequest) -> Answer:
        wanted = read_query(request.query, ScreenshotQuery)
        observe = Observe(wanted.interaction_mode, wanted.format, wanted.quality)
        until = request.until(wanted.deadline_seconds)
        picture = await self._node.call(
            wanted.session, until, lambda session: session.screenshot(observe, until)
        )
        return picture_answer(picture)
