"""Waiting for a server that is away.

A server that died is started again by whoever runs it. Until then every rollout sent to it would
fail within a millisecond, and a whole dataset would be used up in the time of a restart. So the
first that finds nobody there knocks until somebody answers, for a bounded time, and the others wait
with it.
"""

import asyncio
import contextvars
from collections.abc import Iterator

from rollgym.records import AgentError, RolloutError
from rollgym.servers.client import NoAnswerError, ServerClient

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
KNOCK_TIMEOUT = 5.0


class Patience:
    """For how many seconds to wait for a server, all rollouts together."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._seconds = seconds
        self._knocking: dict[str, asyncio.Task[None]] = {}

    async def wait_for(self, client: ServerClient, error: RolloutError) -> None:
        """Return when the server answers again, or does not within the time.

        Returns at once when the error does not mean that nobody is there.
        """
        if not isinstance(error.__cause__, NoAnswerError):
            return
        knocking = self._knocking.get(client.name)
        if knocking is None:
            knocking = asyncio.create_task(
                self._knock(client),
                name=f"knock at {client.name}",
                context=contextvars.Context(),  # on behalf of all rollouts, not of the first
            )
            self._knocking[client.name] = knocking
            knocking.add_done_callback(lambda _: self._knocking.pop(client.name, None))
        await asyncio.shield(knocking)

    async def _knock(self, client: ServerClient) -> None:
        deadline = asyncio.get_running_loop().time() + self._seconds
        for pause in _pauses():
            if asyncio.get_running_loop().time() + pause > deadline:
                return
            await asyncio.sleep(pause)
            try:
                await client.exchange(
                    "/healthz", b"", error=AgentError, within=KNOCK_TIMEOUT, method="GET"
                )
            except RolloutError:
                continue
            return


def _pauses() -> Iterator[float]:
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(LONGEST_PAUSE, 2 * pause)
