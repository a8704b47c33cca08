"""The nodes of a simulated cluster: sessions, and the losses of nodes that take them away.

A session goes to the node with the fewest, as from the master of the browser servers, and requests
wait for one in its real queue (`webgym.browser.queue`). A lost node ends the attempts that have a
session there, when the loss is noticed; it comes back later, without any session.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rollgym.records import RolloutError
from webgym.browser.queue import SessionQueue

T = TypeVar("T")


class Node:
    """One machine with room for sessions; `attempts` are the tasks that have one."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.alive = True
        self.losses = 0
        self.used = 0
        self.attempts: dict[asyncio.Task[object], bool] = {}
        """With each attempt: whether the loss of the node has ended it."""


class Nodes:
    """All nodes, and the queue in front of them."""

    def __init__(
        self, number: int, sessions: int, queue_size: int, error: Callable[[str], RolloutError]
    ) -> None:
        """`error` makes the error of an attempt whose node was lost."""
        self.lost = 0
        self._loop = asyncio.get_running_loop()
        self._sessions = sessions
        self._error = error
        self._nodes = [Node(each) for each in range(number)]
        self._queue: SessionQueue[tuple[Node, int]] = SessionQueue(
            queue_size, self._acquire, self._release, lambda: "all are in use"
        )

    async def use(self, wait_seconds: float, work: Callable[[], Awaitable[T]]) -> T:
        """Do something in a session.

        Raises NoSessionError where none is free in time, and the error of a lost node.
        """
        grant = await self._queue.wait("collection", self._loop.time() + wait_seconds)
        node, _ = grant
        task = asyncio.current_task()
        assert task is not None
        node.attempts[task] = False
        try:
            return await work()
        except asyncio.CancelledError:
            if node.attempts[task] and task.uncancel() == 0:
                raise self._error(f"node {node.number} was lost") from None
            raise
        finally:
            del node.attempts[task]
            self._release(grant)
            self._queue.serve()

    def lose(self, number: int, noticed: float, repaired: float) -> None:
        """Lose a node, which is noticed `noticed` seconds later and repaired after `repaired`."""
        node = self._nodes[number % len(self._nodes)]
        if not node.alive:
            return
        node.alive = False
        node.losses += 1
        self.lost += 1
        node.used = 0
        self._loop.call_later(noticed, self._end_attempts, node, list(node.attempts))
        self._loop.call_later(max(noticed, repaired), self._return, node)

    def _end_attempts(self, node: Node, attempts: list[asyncio.Task[object]]) -> None:
        for task in attempts:
            if task in node.attempts:
                node.attempts[task] = True
                task.cancel()

    def _return(self, node: Node) -> None:
        node.alive = True
        self._queue.serve()

    def _acquire(self) -> tuple[Node, int] | None:
        alive = [node for node in self._nodes if node.alive]
        node = min(alive, key=_used, default=None)
        if node is None or node.used >= self._sessions:
            return None
        node.used += 1
        return node, node.losses

    def _release(self, grant: tuple[Node, int]) -> None:
        node, losses = grant
        if losses == node.losses:
            node.used -= 1


def _used(node: Node) -> int:
    return node.used
