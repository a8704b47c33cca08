"""The browser sessions of a rollout."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from webgym.browser.contract.profile import SessionProfile
from webgym.client.client import BrowserClient
from webgym.client.isolation import IsolatedBrowserClient
from webgym.client.sessions import SessionSource, TrackedSessions
from webgym.rollout.environment_settings import EnvironmentSettings


@asynccontextmanager
async def browser_sessions(
    settings: EnvironmentSettings, token: str | None, sessions: int, profile: SessionProfile
) -> AsyncIterator[SessionSource]:
    """Sessions of the browser server, through this process or isolated client processes.

    Sessions that are still in use at the end are released.
    """
    timeout, pools, url = settings.operation_timeout, settings.http_pools, settings.browser_url
    client: BrowserClient | IsolatedBrowserClient
    if settings.isolation == "process":
        clients = settings.isolation_workers or sessions
        client = IsolatedBrowserClient(url, token, timeout, workers=clients, profile=profile)
    else:
        client = BrowserClient(url, token, timeout, pools.connections, profile)
    async with client:
        tracked = TrackedSessions(client, pools.allocate, pools.release)
        try:
            yield tracked
        finally:
            await tracked.release_all(abandoned=not settings.skip_instance_cleanup)
