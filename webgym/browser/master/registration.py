"""How nodes and masters find each other.

A node reports to its master about once a second: its address, its free slots and its sessions. A
master needs nothing else, so one that was restarted knows everything after a second. The answer
lists sessions that the master reported as lost while it could not reach the node: they will not be
used again, and the node closes them.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from typing import Annotated

import aiohttp
import msgspec

from rollgym.records.decoding import JsonDecoder
from rollgym.servers.limit import Limit

REGISTER_PATH = "/register"
TOKEN_HEADER = "x-api-key"  # noqa: S105 - the name of a header
HEARTBEAT_SECONDS = 1.0
SHORTEST_INTERVAL = 0.1
ANSWER_SECONDS = 3.0
LAST_REPORT_SECONDS = 1.0
EXCERPT = 300
MOST_INSTANCES = 10_000
_LOGGER = logging.getLogger(__name__)


class Registration(msgspec.Struct, frozen=True):
    """The report of a node. `boot` differs after each start of the node."""

    url: Annotated[str, msgspec.Meta(max_length=500)]
    boot: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    capacity: Annotated[int, msgspec.Meta(ge=0, le=MOST_INSTANCES)]
    available: Annotated[int, msgspec.Meta(ge=0, le=MOST_INSTANCES)]
    instances: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_INSTANCES)] = ()
    leaving: bool = False


class RegistrationReply(msgspec.Struct, frozen=True):
    """The answer of the master: the sessions that the node must close."""

    close: tuple[str, ...] = ()
    status: str = "success"


_REGISTERED = JsonDecoder(RegistrationReply)


def node_hash(url: str) -> str:
    """The short name of a node, the same after every start."""
    return hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:12]


class Registrar:
    """Reports the state of a node to its master, for the length of an `async with` block."""

    def __init__(
        self,
        master_url: str,
        token: str | None,
        http: aiohttp.ClientSession,
        state: Callable[[], Registration],
        close: Callable[[str, str], None],
    ) -> None:
        """`close` is called with each session that the master gave up, and the reason."""
        self._master_url = master_url.rstrip("/")
        self._headers = {} if token is None else {TOKEN_HEADER: token}
        self._http = http
        self._state = state
        self._close = close
        self._changed = asyncio.Event()
        self._registered: bool | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Registrar":
        self._task = asyncio.ensure_future(self._report_regularly())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=1.0)
        if self._registered:
            await self._report(leaving=True, within=LAST_REPORT_SECONDS)

    def report_soon(self) -> None:
        """Report soon, because something changed."""
        self._changed.set()

    async def _report_regularly(self) -> None:
        while True:
            self._changed.clear()
            await self._report(leaving=False, within=ANSWER_SECONDS)
            await asyncio.sleep(SHORTEST_INTERVAL)
            try:
                with Limit(HEARTBEAT_SECONDS - SHORTEST_INTERVAL):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _report(self, *, leaving: bool, within: float) -> None:
        body = msgspec.json.encode(msgspec.structs.replace(self._state(), leaving=leaving))
        try:
            with Limit(within):
                async with self._http.post(
                    self._master_url + REGISTER_PATH, data=body, headers=self._headers
                ) as response:
                    body = await response.read()
                    status = response.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._log_change(f"cannot be reached ({error or type(error).__name__})")
            return
        if status != 200:
            self._log_change(f"answered HTTP {status}: {body[:EXCERPT].decode('utf-8', 'replace')}")
            return
        try:
            answer = _REGISTERED.decode(body)
        except msgspec.DecodeError:
            self._log_change("gave an answer that cannot be read: is it a browser server?")
            return
        self._log_change(None)
        for instance_id in answer.close:
            self._close(instance_id, "the master could not reach this node for a while")

    def _log_change(self, failure: str | None) -> None:
        """Log the failure, or that the node is registered, if that changed."""
        registered = failure is None
        if registered is self._registered:
            return
        if failure is None:
            _LOGGER.info("registered with the master at %s", self._master_url)
        else:
            _LOGGER.warning("the master at %s %s; trying again", self._master_url, failure)
        self._registered = registered
