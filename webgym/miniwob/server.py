"""The tasks on a port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from webgym.miniwob.application import MiniWob
from webgym.miniwob.errors import MiniWobError
from webgym.miniwob.package import Package, find_package
from webgym.served import served

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7310
DEFAULT_BASE = f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"


@asynccontextmanager
async def serving(
    host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, package: Package | None = None
) -> AsyncIterator[str]:
    """Serve all tasks until the end of the block; gives their URL, without a slash at its end.

    Port 0 is any that is free. Raises MiniWobError.
    """
    application = MiniWob(package or find_package()).application()
    async with served(application, host, port, MiniWobError) as url:
        yield url
