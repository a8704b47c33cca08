"""Reading what the episodes of rows ask for, in a real browser.

A page makes up its instruction when it is opened, so it is opened once, in a session that nobody
else uses.
"""

import asyncio
from collections.abc import Sequence

import aiohttp
import msgspec

from webgym.browser.contract.answers import Observe
from webgym.browser.contract.commands import VisitPage
from webgym.environment.client import BrowserClient
from webgym.miniwob.episodes import Truth, new_session_name
from webgym.miniwob.errors import MiniWobError
from webgym.miniwob.rows import TaskRow, start_url, truth_url

TIMEOUT = 10.0
_LOOK = Observe(screenshot=None)


async def read_instructions(
    client: BrowserClient, rows: Sequence[TaskRow], parallel: int = 4
) -> list[TaskRow]:
    """The rows with their instructions as `task_name`.

    Raises MiniWobError where a page gives none, and the errors of the browser server.
    """
    waiting = list(enumerate(rows))
    read: dict[int, TaskRow] = {}

    async def work(asking: aiohttp.ClientSession) -> None:
        async with client.session() as session:
            while waiting:
                index, row = waiting.pop()
                website = start_url(row, new_session_name())
                await session.step(VisitPage(website), _LOOK)
                instruction = (await _truth(asking, website)).instruction
                if not instruction:
                    raise MiniWobError(f"{row.website} shows no instruction")
                read[index] = msgspec.structs.replace(row, task_name=instruction)

    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    async with aiohttp.ClientSession(timeout=timeout) as asking, asyncio.TaskGroup() as workers:
        for _ in range(min(parallel, len(rows))):
            workers.create_task(work(asking))
    return [read[index] for index in range(len(rows))]


async def _truth(asking: aiohttp.ClientSession, website: str) -> Truth:
    address = truth_url(website)
    if address is None:
        raise MiniWobError(f"{website} is no page of a task")
    async with asking.get(address) as response:
        return msgspec.json.decode(await response.read(), type=Truth)
