"""Spreads sessions over nodes, and finds the node that a request is for.

All waiting happens here, in one fair line: nodes are asked for a session only when they have room,
and answer at once. The node of this process and those that registered are treated alike.
"""

import asyncio

import aiohttp
import msgspec

from rollgym.servers.exchange import Answer
from webgym.browser.contract.answers import Lease, NodeInfo
from webgym.browser.contract.errors import BadRequestError, NoSessionError, SessionLostError
from webgym.browser.exchange.request import Address, Request
from webgym.browser.master.member import LocalMember, Member
from webgym.browser.master.remote import RemoteMember
from webgym.browser.queue import WaitingLine
from webgym.browser.registration import Registered, Registration, node_hash
from webgym.browser.settings import Settings

LOOK_INTERVAL = 0.25
FORGET_SECONDS = 600.0
CLOSE_SECONDS = 2.0
MOST_NODES = 1000


class Info(msgspec.Struct, frozen=True):
    """What `GET /info` answers. `waiting` counts the requests for a session in line."""

    nodes: tuple[NodeInfo, ...]
    waiting: int
    status: str = "success"


class Master:
    """The nodes and the line before them; `async with` begins and ends its work."""

    def __init__(
        self,
        settings: Settings,
        local: LocalMember | None = None,
        http: aiohttp.ClientSession | None = None,
    ) -> None:
        """`http` is for calling the nodes that register; None: none can."""
        self._settings = settings
        self._http = http
        self._members: dict[str, Member] = {} if local is None else {local.hash: local}
        self._line: WaitingLine[Member] = WaitingLine(
            settings.queue_size, self._take, self._give_back, self._why_none
        )
        self._started_at = 0.0
        self._news = asyncio.Event()
        self._look: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Master":
        self._started_at = asyncio.get_running_loop().time()
        self._look = asyncio.ensure_future(self._keep_looking())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._line.close("the browser server is stopping")
        if self._look is not None:
            self._look.cancel()
            await asyncio.wait({self._look}, timeout=1.0)
        await asyncio.gather(*(member.close(CLOSE_SECONDS) for member in self._remote()))

    async def get(
        self,
        client: str,
        lifetime: float,
        wait_until: float,
        deadline: float,
        instance_id: str | None = None,
    ) -> Lease:
        """A session for this client. Raises NoSessionError where there is none until then.

        A caller that is cancelled leaves the line, and nothing is kept for it.
        """
        refusal: NoSessionError | None = None
        while True:
            try:
                member = await self._line.wait(client, wait_until, ahead=refusal is not None)
            except NoSessionError as error:
                if refusal is None:
                    raise
                raise NoSessionError(str(refusal), retry_after=error.retry_after) from error
            now = asyncio.get_running_loop().time()
            if now >= deadline:
                member.give_back()
                why = "there was no time left to open a session"
                raise refusal or NoSessionError(why, retry_after=self._line.retry_after())
            open_until = min(deadline, now + self._settings.open_seconds)
            try:
                return Lease(await member.open(lifetime, open_until, instance_id), member.hash)
            except NoSessionError as error:
                refusal = error

    async def ask(self, request: Request, address: Address) -> Answer:
        """Have the node answer that the request is for. Raises the errors of the contract."""
        member = await self._find(address.node)
        until = request.until(address.deadline_seconds)
        answer = await member.ask(request, address.instance_id, until)
        if request.path == "/reset":
            self.serve()
        return answer

    def drop(self, lease: Lease) -> None:
        """End a session whose client went away before it was told of it."""
        member = self._members.get(lease.node)
        if member is not None:
            member.drop(lease.instance_id)

    def register(self, said: Registration, token: str | None) -> Registered:
        """Take what a node says of itself. Raises BadRequestError or RefusedRequestError."""
        if self._http is None:
            raise BadRequestError("this server has no other nodes: start one with --role master")
        name = node_hash(said.url)
        member = self._members.get(name)
        if member is None:
            if len(self._members) >= MOST_NODES:
                raise BadRequestError(f"this master has {MOST_NODES} nodes, which is its limit")
            member = RemoteMember(said.url.rstrip("/"), token, self._http)
        if not isinstance(member, RemoteMember):
            raise BadRequestError(f"{said.url} is the address of this server itself")
        answer = member.heard(said, asyncio.get_running_loop().time())
        self._members[name] = member
        self._news.set()
        self.serve()
        return answer

    def serve(self) -> None:
        """Room may have become free."""
        self._line.serve()

    def info(self) -> Info:
        nodes = tuple(member.info() for member in self._members.values())
        return Info(nodes, len(self._line))

    @property
    def room(self) -> int:
        return sum(member.room for member in self._members.values() if member.healthy)

    async def _find(self, name: str | None) -> Member:
        """The node of this name. Raises SessionLostError or BadRequestError.

        A master that was just started waits for nodes to tell it that they are there.
        """
        patience_ends = self._started_at + self._settings.startup_patience
        while (member := self._known(name)) is None:
            left = patience_ends - asyncio.get_running_loop().time()
            if left <= 0 or self._http is None:
                break
            self._news.clear()
            await _happens(self._news, left)
        if member is not None:
            return member
        if name is None:
            raise BadRequestError("node is missing: give the one that POST /get answered")
        raise SessionLostError(f"there is no node {name[:60]!r}, so its sessions are lost")

    def _known(self, name: str | None) -> Member | None:
        if name is not None:
            return self._members.get(name)
        return next(iter(self._members.values())) if len(self._members) == 1 else None

    def _take(self) -> Member | None:
        """Reserve room at the node that has most of it for its size."""
        now = asyncio.get_running_loop().time()
        able = [member for member in self._members.values() if member.can_take(now)]
        if not able:
            return None
        member = max(able, key=lambda each: (each.room / max(each.capacity, 1), each.room))
        member.take()
        return member

    def _give_back(self, member: Member) -> None:
        member.give_back()

    def _why_none(self) -> str:
        up = [member for member in self._members.values() if member.healthy]
        if not up:
            return "no node is up"
        capacity, count = sum(member.capacity for member in up), len(up)
        where = f" of {count} nodes" if count > 1 else ""
        if self.room > 0:
            trouble = next((member.trouble for member in up if member.trouble), "not yet")
            return f"there is room, but no session can be opened: {trouble}"
        return f"all {capacity} sessions{where} are taken"

    def _remote(self) -> list[RemoteMember]:
        return [member for member in self._members.values() if isinstance(member, RemoteMember)]

    async def _keep_looking(self) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time()
        while True:
            await asyncio.sleep(LOOK_INTERVAL)
            now = loop.time()
            # While this process itself stood still, it heard from nobody.
            standstill = max(0.0, now - before - 2 * LOOK_INTERVAL)
            before = now
            for member in self._remote():
                member.heard_at = min(now, member.heard_at + standstill)
                self._look_at(member, now)
            self.serve()

    def _look_at(self, member: RemoteMember, now: float) -> None:
        silence = now - member.heard_at
        if silence > FORGET_SECONDS:
            del self._members[member.hash]
        elif silence > self._settings.silence_seconds and member.healthy:
            member.lose(f"has been silent for {silence:.1f} s")


async def _happens(event: asyncio.Event, seconds: float) -> None:
    """Wait for it, at most so long."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
