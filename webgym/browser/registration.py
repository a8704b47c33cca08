"""How nodes and masters know of each other.

A node tells its master about once a second who it is, how much room it has and which sessions live
there. That is all a master ever needs, so one that was started anew knows everything after a
second. The answer lists sessions that the master has declared lost while it could not reach the
node: nobody will use them any more, and the node closes them.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from typing import Annotated

import aiohttp
import msgspec

from rollgym.servers.limit import Limit

REGISTER_PATH = "/register"
TOKEN_HEADER = "x-api-key"  # noqa: S105 - the name of a header
HEARTBEAT_SECONDS = 1.0
SHORTEST_INTERVAL = 0.1
ANSWER_SECONDS = 3.0
LEAVING_SECONDS = 1.0
EXCERPT = 300
MOST_INSTANCES = 10_000
_LOGGER = logging.getLogger(__name__)


class Registration(msgspec.Struct, frozen=True):
    """What a node says of itself. `boot` is another one after each start of the node."""

    url: Annotated[str, msgspec.Meta(max_length=500)]
    boot: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    capacity: Annotated[int, msgspec.Meta(ge=0, le=MOST_INSTANCES)]
    available: Annotated[int, msgspec.Meta(ge=0, le=MOST_INSTANCES)]
    instances: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_INSTANCES)] = ()
    leaving: bool = False


class Registered(msgspec.Struct, frozen=True):
    """What the master answers: the sessions that the node is to close."""

    close: tuple[str, ...] = ()
    status: str = "success"


_REGISTERED = msgspec.json.Decoder(Registered)


def node_hash(url: str) -> str:
    """The short name of a node, the same after every start."""
    return hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:12]


class Registrar:
    """The node's side: keeps a master informed for as long as its block lasts."""

    def __init__(
        self,
        master_url: str,
        token: str | None,
        http: aiohttp.ClientSession,
        state: Callable[[], Registration],
        close: Callable[[str, str], None],
    ) -> None:
        """`close` is called with each session that the master has given up, and why."""
        self._master_url = master_url.rstrip("/")
        self._headers = {} if token is None else {TOKEN_HEADER: token}
        self._http = http
        self._state = state
        self._close = close
        self._news = asyncio.Event()
        self._known: bool | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Registrar":
        self._task = asyncio.ensure_future(self._keep_informed())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=1.0)
        if self._known:
            await self._tell(leaving=True, within=LEAVING_SECONDS)

    def hurry(self) -> None:
        """Something has changed: tell it soon."""
        self._news.set()

    async def _keep_informed(self) -> None:
        while True:
            self._news.clear()
            await self._tell(leaving=False, within=ANSWER_SECONDS)
            await asyncio.sleep(SHORTEST_INTERVAL)
            try:
                with Limit(HEARTBEAT_SECONDS - SHORTEST_INTERVAL):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _tell(self, *, leaving: bool, within: float) -> None:
        body = msgspec.json.encode(msgspec.structs.replace(self._state(), leaving=leaving))
        try:
            with Limit(within):
                async with self._http.post(
                    self._master_url + REGISTER_PATH, data=body, headers=self._headers
                ) as response:
                    said = await response.read()
                    status = response.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._note(f"cannot be reached ({error or type(error).__name__})")
            return
        if status != 200:
            self._note(f"answers HTTP {status}: {said[:EXCERPT].decode('utf-8', 'replace')}")
            return
        try:
            answer = _REGISTERED.decode(said)
        except msgspec.DecodeError:
            self._note("gives an answer that cannot be read: is it a browser server?")
            return
        self._note(None)
        for instance_id in answer.close:
            self._close(instance_id, "the master could not reach this node for a while")

    def _note(self, trouble: str | None) -> None:
        """Log it where it is news."""
        known = trouble is None
        if known is self._known:
            return
        if trouble is None:
            _LOGGER.info("registered with the master at %s", self._master_url)
        else:
            _LOGGER.warning("the master at %s %s; trying again", self._master_url, trouble)
        self._known = known
