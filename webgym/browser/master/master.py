"""Spreads sessions over nodes, and finds the node that a request is for.

All waiting happens here, in one fair queue: nodes are asked for a session only when they have a
free slot, and answer at once. The node of this process and those that registered are treated alike.
"""

import asyncio
from contextlib import suppress

import aiohttp

from rollgym.servers.exchange import Answer
from rollgym.servers.limit import Limit
from webgym.browser.contract.answers import Lease, ServerInfo
from webgym.browser.contract.errors import BadRequestError, NoSessionError, SessionLostError
from webgym.browser.contract.http import BrowserRequest, SessionReference
from webgym.browser.contract.profile import DEFAULT_PROFILE, SessionProfile
from webgym.browser.master.nodes import LocalNode, NodeHandle
from webgym.browser.master.registration import Registration, RegistrationReply, node_hash
from webgym.browser.master.remote import RemoteNode
from webgym.browser.queue import SessionQueue
from webgym.browser.settings import BrowserSettings

CHECK_INTERVAL = 0.25
FORGET_SECONDS = 600.0
CLOSE_SECONDS = 2.0
MOST_NODES = 1000


class Master:
    """The nodes, and the queue of requests for their sessions. `async with` starts and stops it."""

    def __init__(
        self,
        settings: BrowserSettings,
        local: LocalNode | None = None,
        http: aiohttp.ClientSession | None = None,
    ) -> None:
        """`http` is used to call registered nodes; None means that nodes cannot register."""
        self._settings = settings
        self._http = http
        self._nodes: dict[str, NodeHandle] = {} if local is None else {local.hash: local}
        self._queue: SessionQueue[NodeHandle] = SessionQueue(
            settings.queue_size, self._reserve, NodeHandle.cancel_reservation, self._why_none
        )
        self._started_at = 0.0
        self._registered = asyncio.Event()
        self._checking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Master":
        self._started_at = asyncio.get_running_loop().time()
        self._checking = asyncio.ensure_future(self._check_nodes())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._queue.close("the browser server is stopping")
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait({self._checking}, timeout=1.0)
        await asyncio.gather(*(node.close(CLOSE_SECONDS) for node in self._remote()))

    async def get(  # noqa: PLR0917
        self,
        client: str,
        lifetime: float,
        wait_until: float,
        deadline: float,
        instance_id: str | None = None,
        profile: SessionProfile = DEFAULT_PROFILE,
    ) -> Lease:
        """A session for this client. Raises NoSessionError if there is none until then.

        Raises BadRequestError if the profile cannot be used. If the caller is cancelled, its place
        in the queue or its session is released.
        """
        rejection: NoSessionError | None = None
        while True:
            try:
                node = await self._queue.wait(client, wait_until, ahead=rejection is not None)
            except NoSessionError as error:
                if rejection is None:
                    raise
                raise NoSessionError(str(rejection), retry_after=error.retry_after) from error
            now = asyncio.get_running_loop().time()
            if now >= deadline:
                node.cancel_reservation()
                why = "there was no time left to open a session"
                raise rejection or NoSessionError(why, retry_after=self._queue.retry_after())
            open_until = min(deadline, now + self._settings.open_seconds)
            try:
                opened = await node.open(lifetime, open_until, instance_id, profile)
                return Lease(opened, node.hash)
            except NoSessionError as error:
                rejection = error

    async def ask(self, request: BrowserRequest, reference: SessionReference) -> Answer:
        """Forward a request to its node. Raises the errors of the contract."""
        node = await self._find(reference.node)
        until = request.until(reference.deadline_seconds)
        answer = await node.ask(request, reference.instance_id, until)
        if request.path == "/reset":
            self.serve()
        return answer

    def drop(self, lease: Lease) -> None:
        """End a session whose client disconnected before it got the answer."""
        node = self._nodes.get(lease.node)
        if node is not None:
            node.drop(lease.instance_id)

    def register(self, registration: Registration, token: str | None) -> RegistrationReply:
        """Store the state that a node reports. Raises BadRequestError and RefusedRequestError."""
        if self._http is None:
            raise BadRequestError(
                "nodes cannot register at this server: start one with --role master"
            )
        name = node_hash(registration.url)
        node = self._nodes.get(name)
        if node is None:
            if len(self._nodes) >= MOST_NODES:
                raise BadRequestError(f"this master has {MOST_NODES} nodes, which is its limit")
            node = RemoteNode(registration.url.rstrip("/"), token, self._http)
        if not isinstance(node, RemoteNode):
            raise BadRequestError(f"{registration.url} is the address of this server itself")
        answer = node.update(registration, asyncio.get_running_loop().time())
        self._nodes[name] = node
        self._registered.set()
        self.serve()
        return answer

    def serve(self) -> None:
        """Serve the queue; called when a slot may have become free."""
        self._queue.serve()

    def info(self) -> ServerInfo:
        nodes = tuple(node.info() for node in self._nodes.values())
        return ServerInfo(nodes, len(self._queue))

    @property
    def free_slots(self) -> int:
        return sum(node.free_slots for node in self._nodes.values() if node.healthy)

    async def _find(self, name: str | None) -> NodeHandle:
        """The node of this name. Raises SessionLostError and BadRequestError.

        A master that was just started waits for nodes to register.
        """
        known_by = self._started_at + self._settings.startup_seconds
        while (node := self._known(name)) is None:
            left = known_by - asyncio.get_running_loop().time()
            if left <= 0 or self._http is None:
                break
            self._registered.clear()
            with suppress(TimeoutError), Limit(left):
                await self._registered.wait()
        if node is not None:
            return node
        if name is None:
            raise BadRequestError("node is missing: give the one that POST /get answered")
        raise SessionLostError(f"unknown node {name[:60]!r}: its sessions are lost")

    def _known(self, name: str | None) -> NodeHandle | None:
        if name is not None:
            return self._nodes.get(name)
        return next(iter(self._nodes.values())) if len(self._nodes) == 1 else None

    def _reserve(self) -> NodeHandle | None:
        """Reserve a slot at the node with the most free slots relative to its capacity."""
        now = asyncio.get_running_loop().time()
        able = [node for node in self._nodes.values() if node.can_open(now)]
        if not able:
            return None
        node = max(
            able, key=lambda each: (each.free_slots / max(each.capacity, 1), each.free_slots)
        )
        node.reserve()
        return node

    def _why_none(self) -> str:
        up = [node for node in self._nodes.values() if node.healthy]
        if not up:
            return "no node is up"
        capacity, count = sum(node.capacity for node in up), len(up)
        where = f" of {count} nodes" if count > 1 else ""
        if self.free_slots > 0:
            failure = next((node.open_failure for node in up if node.open_failure), "not yet")
            return f"slots are free, but no session can be opened: {failure}"
        return f"all {capacity} sessions{where} are in use"

    def _remote(self) -> list[RemoteNode]:
        return [node for node in self._nodes.values() if isinstance(node, RemoteNode)]

    async def _check_nodes(self) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time()
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            now = loop.time()
            # While this process itself was stopped, it received nothing.
            stopped = max(0.0, now - before - 2 * CHECK_INTERVAL)
            before = now
            for node in self._remote():
                node.last_heard = min(now, node.last_heard + stopped)
                self._check_silence(node, now)
            self.serve()

    def _check_silence(self, node: RemoteNode, now: float) -> None:
        silence = now - node.last_heard
        if silence > FORGET_SECONDS:
            del self._nodes[node.hash]
        elif silence > self._settings.silence_seconds and node.healthy:
            node.lose(f"has been silent for {silence:.1f} s")
