"""A process that owns a browser with busy pages, prints its process group, and waits to be killed.

With the argument `reaper` it adopts orphans, as the first process of a container does, ends the
browser, and prints a process that was left to reap, or 0.
"""

import asyncio
import ctypes
import sys

from tests.integration.webgym.browser.chromium.harness import launched, open_page
from tests.integration.webgym.browser.processes import reaped
from webgym.browser.chromium.executable import find_browser

_PR_SET_CHILD_SUBREAPER = 36
_BUSY = "onbeforeunload = () => 'stay'; while (true) {}"


async def own() -> None:
    async with launched(find_browser()) as chromium:
        await open_page(chromium)
        await open_page(chromium, _BUSY)
        print(chromium.group, flush=True)
        await asyncio.sleep(60)


async def adopt() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    async with launched(find_browser()) as chromium:
        await open_page(chromium)
    print(reaped(), flush=True)


if __name__ == "__main__":
    asyncio.run(adopt() if sys.argv[1:] == ["reaper"] else own())
