"""The desk of a node: requests about its sessions, from bytes to bytes.

A master in the same process calls it with the same requests that a remote one sends, so both speak
one contract.
"""

from collections.abc import Awaitable, Callable
from typing import Generic

from rollgym.servers.exchange import Answer, json_answer
from webgym.browser.contract.answers import VIEWPORT_HEIGHT, VIEWPORT_WIDTH
from webgym.browser.contract.commands import read_command, read_optional_command
from webgym.browser.exchange.answer import picture_answer, success
from webgym.browser.exchange.request import (
    DEADLINE_KEY,
    OBSERVE_KEY,
    Address,
    Request,
    ScreenshotQuery,
    read_address,
    read_object,
    read_query,
    read_step,
)
from webgym.browser.node import Node, S

_NO_COMMANDS = frozenset({DEADLINE_KEY})
_NO_STEP_COMMANDS = frozenset({DEADLINE_KEY, OBSERVE_KEY})


class Desk(Generic[S]):
    """Answers the requests that are for a session of this node."""

    def __init__(self, node: Node[S], node_hash: str) -> None:
        self._node = node
        self._hash = node_hash
        self._routes: dict[str, Callable[[Request], Awaitable[Answer]]] = {
            "/reset": self._reset,
            "/screenshot": self._screenshot,
            "/execute": self._execute,
            "/step": self._step,
            "/probe": self._probe,
            "/metadata": self._metadata,
        }

    async def answer(self, request: Request) -> Answer:
        """Raises the errors of the contract. The path must be one of the desk's."""
        return await self._routes[request.path](request)

    async def _reset(self, request: Request) -> Answer:
        note = await self._node.reset(read_query(request.query, Address).session)
        return success() if note is None else success(note=note)

    async def _screenshot(self, request: Request) -> Answer:
        wanted = read_query(request.query, ScreenshotQuery)
        picture = await self._node.screenshot(
            wanted.session,
            wanted.interaction_mode,
            wanted.format,
            wanted.quality,
            request.until(wanted.deadline_seconds),
        )
        return picture_answer(picture)

    async def _execute(self, request: Request) -> Answer:
        address = read_address(request.body)
        command = read_command(read_object(request.body), _NO_COMMANDS)
        until = request.until(address.deadline_seconds)
        return json_answer(await self._node.execute(address.session, command, until))

    async def _step(self, request: Request) -> Answer:
        step = read_step(request.body)
        command = read_optional_command(read_object(request.body), _NO_STEP_COMMANDS)
        until = request.until(step.deadline_seconds)
        return json_answer(await self._node.step(step.session, command, step.observe, until))

    async def _probe(self, request: Request) -> Answer:
        session = read_query(request.query, Address).session
        left = round(self._node.seconds_left(session), 1)
        return success(instance_id=session, node=self._hash, expires_in_seconds=left)

    async def _metadata(self, request: Request) -> Answer:
        self._node.seconds_left(read_query(request.query, Address).session)
        return json_answer({"width": VIEWPORT_WIDTH, "height": VIEWPORT_HEIGHT})
