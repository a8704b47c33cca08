"""The sites on a port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from webgym.served import served
from webgym.sites.application import make_application
from webgym.sites.errors import SitesError
from webgym.sites.names import DEFAULT_HOST, DEFAULT_PORT


@asynccontextmanager
async def serving(host: str = DEFAULT_HOST, port: int = DEFAULT_PORT) -> AsyncIterator[str]:
    """Serve all the sites until the end of the block; gives their URL, without a slash at its end.

    Port 0 is any that is free. Raises SitesError.
    """
    async with served(make_application(), host, port, SitesError) as url:
        yield url
