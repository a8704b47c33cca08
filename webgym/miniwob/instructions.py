"""The instructions of MiniWoB++ tasks, read from their pages in a browser of its own.

The instruction of an episode follows from its seed, and only the page can make it. So each page is
opened once, at a server and in a browser that run as long as the reading.
"""

import asyncio
from collections.abc import Callable

import msgspec

from rollgym.records import BrowserError
from webgym.browser.server import bind, browsers, url_of
from webgym.browser.server import serving as browsers_serving
from webgym.browser.settings import BrowserSettings
from webgym.client.client import BrowserClient
from webgym.miniwob.application import serving
from webgym.miniwob.package import MiniWobError, Package
from webgym.miniwob.rows import MiniWobRow, read_instructions

PARALLEL = 4
SECONDS_EACH = 30.0
"""The longest time for a page, on average."""


async def instructed(
    rows_at: Callable[[str], list[MiniWobRow]], base_url: str, package: Package
) -> list[MiniWobRow]:
    """The rows at `base_url` with their instructions as `task_name`. Raises MiniWobError.

    `rows_at` gives the rows at any server.
    """
    rows = rows_at(base_url)
    settings = BrowserSettings(port=0, capacity=PARALLEL, allow_network=("loopback",))
    bound = bind(settings)
    try:
        async with (
            asyncio.timeout(SECONDS_EACH * (len(rows) / PARALLEL + 2)),
            serving(port=0, package=package) as base,
            browsers(settings, bound) as (pool, _),
            browsers_serving(settings, None, bound, pool),
            BrowserClient(url_of(settings, bound)) as client,
        ):
            read = await read_instructions(client, rows_at(base), PARALLEL)
    except* (BrowserError, MiniWobError, OSError, TimeoutError) as errors:
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise MiniWobError(
            f"the instructions could not be read in Chromium: {type(first).__name__}: {first}; "
            "--no-instructions writes the rows without them"
        ) from first
    finally:
        bound.close()
    return [
        msgspec.structs.replace(row, task_name=other.task_name)
        for row, other in zip(rows, read, strict=True)
    ]
