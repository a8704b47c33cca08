"""The browsing of `browser_contenders` with our server in a process of its own.

python -m benchmarks.browser_rollgym URL TASKS SESSIONS [STEPS]
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.browser_contenders import PNG, SCROLL, STEPS, ContenderCosts, Tally, browse, report
from benchmarks.browser_pages import LINK_AT, PAGES
from webgym.browser.contract.answers import Observe
from webgym.browser.contract.commands import ClickCoords, Command, PageDown, VisitPage
from webgym.client.client import BrowserClient

PATIENCE = 60.0


async def with_rollgym(
    url: str, tasks: int, sessions: int, steps: int = len(STEPS)
) -> ContenderCosts:
    """Our server in a child process, our client in this one."""
    async with server(sessions) as address, BrowserClient(address) as client:
        observe = Observe("coordinates", "png")

        async def task(number: int, tally: Tally) -> None:
            began = time.perf_counter()
            async with client.session() as session:
                tally.start_seconds.append(time.perf_counter() - began)

                async def step(command: Command) -> bool:
                    answer = await session.step(command, observe)
                    picture = answer.screenshot
                    taken = picture is not None and picture.data.startswith(PNG)
                    return answer.error is None and taken and bool(answer.page.title)

                for index in range(steps):
                    await tally.timed_step(step(command_for(index, url, number)))
                tally.look_at_memory()

        return await browse(task, tasks, sessions, steps)


def command_for(step: int, url: str, number: int) -> Command:
    """What to do in a task's step; longer tasks begin again."""
    match STEPS[step % len(STEPS)]:
        case "visit":
            return VisitPage(f"{url}/page/{number % PAGES}")
        case "click":
            return ClickCoords(*LINK_AT)
        case _:
            return PageDown(SCROLL)


@asynccontextmanager
async def server(sessions: int) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "webgym.browser", "serve", "--port", "0"),
        *("--capacity", str(sessions), "--allow-network", "127.0.0.1"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            said = (await process.stdout.readline()).decode()
        yield next(word.rstrip(":,;") for word in said.split() if word.startswith("http://"))
    finally:
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    report(with_rollgym)
