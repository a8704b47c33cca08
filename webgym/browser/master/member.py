"""A node as its master sees it, in this process or behind a URL.

`take` reserves room for one session, so that two clients are never sent to the same place; `open`
uses the reservation up, whatever comes of it.
"""

import asyncio
from abc import ABC, abstractmethod

from rollgym.servers.exchange import Answer
from webgym.browser.contract.answers import NodeInfo
from webgym.browser.contract.errors import NoSessionError
from webgym.browser.exchange.desk import Desk
from webgym.browser.exchange.request import Request
from webgym.browser.node import Node, S
from webgym.browser.registration import node_hash

SHORTEST_REST, LONGEST_REST = 0.25, 10.0
FAIR_SECONDS = 2.0
"""A node that opens no session within less is not to blame."""
CLOSE_TO_DEADLINE = 0.05
"""Where a timer that runs a moment early ends it."""


class Member(ABC):
    """One node of a master."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.hash = node_hash(url)
        self._failures = 0
        self._rests_until = 0.0
        self.trouble: str | None = None

    @property
    @abstractmethod
    def healthy(self) -> bool: ...

    @property
    @abstractmethod
    def capacity(self) -> int: ...

    @property
    @abstractmethod
    def room(self) -> int:
        """How many sessions it has room for, less those that are reserved."""

    @abstractmethod
    def take(self) -> None:
        """Reserve room for one session."""

    @abstractmethod
    def give_back(self) -> None:
        """Use the reservation for nothing."""

    @abstractmethod
    async def open(self, lifetime: float, deadline: float, instance_id: str | None = None) -> str:
        """A session in the room that was reserved; its identifier. Raises NoSessionError.

        A caller that is cancelled gets nothing, and nothing is kept for it.
        """

    @abstractmethod
    async def ask(self, request: Request, instance_id: str | None, deadline: float) -> Answer:
        """Answer a request that is for this node. Raises the errors of the contract."""

    @abstractmethod
    def drop(self, instance_id: str) -> None:
        """End a session that was opened and reached nobody."""

    @property
    @abstractmethod
    def instances(self) -> tuple[str, ...]: ...

    def can_take(self, now: float) -> bool:
        return self.healthy and self.room > 0 and now >= self._rests_until

    def failed_to_open(self, why: str, began: float, deadline: float) -> None:
        """Let it rest for a while, longer each time: it says that it has room, and has none.

        Not where the client left it no time: others would have to wait for that.
        """
        now = asyncio.get_running_loop().time()
        if deadline - began < FAIR_SECONDS and deadline - now < CLOSE_TO_DEADLINE:
            return
        self.trouble = why
        if now >= self._rests_until:
            rest = min(SHORTEST_REST * 2**self._failures, LONGEST_REST)
            self._rests_until = now + rest
            self._failures = min(self._failures + 1, 10)

    def opened(self) -> None:
        self._failures = 0
        self.trouble = None

    def info(self) -> NodeInfo:
        return NodeInfo(
            self.url, self.hash, self.healthy, self.capacity, max(0, self.room), self.instances
        )


class LocalMember(Member):
    """The node of this process, called directly."""

    def __init__(self, url: str, node: Node[S]) -> None:
        super().__init__(url)
        self._node = node
        self._desk = Desk(node, self.hash)
        self._reserved = 0

    @property
    def healthy(self) -> bool:
        return True

    @property
    def capacity(self) -> int:
        return self._node.capacity

    @property
    def room(self) -> int:
        return self._node.available - self._reserved

    @property
    def instances(self) -> tuple[str, ...]:
        return self._node.instances

    def take(self) -> None:
        self._reserved += 1

    def give_back(self) -> None:
        self._reserved -= 1

    async def open(self, lifetime: float, deadline: float, instance_id: str | None = None) -> str:
        self._reserved -= 1
        began = asyncio.get_running_loop().time()
        try:
            instance_id = await self._node.get(lifetime, deadline, instance_id)
        except NoSessionError as error:
            self.failed_to_open(str(error), began, deadline)
            raise
        self.opened()
        return instance_id

    async def ask(self, request: Request, instance_id: str | None, deadline: float) -> Answer:
        return await self._desk.answer(request)

    def drop(self, instance_id: str) -> None:
        self._node.end(instance_id, "its client went away before it was told")
