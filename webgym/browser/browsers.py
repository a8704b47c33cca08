"""The real browsers of a server: a pool on the best browser there is, behind the network guard."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from urllib.parse import urlsplit

from rollgym.servers.limit import Limit
from webgym.browser.chromium.executable import NoBrowserError, find_browser
from webgym.browser.chromium.process import LaunchError
from webgym.browser.guard.channel import SessionChannel
from webgym.browser.guard.guard import NetworkGuard
from webgym.browser.guard.rules import Endpoint, NetworkRules
from webgym.browser.pool import BrowserPool, PoolSettings
from webgym.browser.session import BrowserSession
from webgym.browser.settings import Settings, SettingsError

MEGABYTE = 2**20
RESOLVED_WITHIN = 10.0
DEFAULT_PORTS = {"http": 80, "https": 443}
Browsers = BrowserPool[SessionChannel, BrowserSession]


@asynccontextmanager
async def browsers(settings: Settings, bound: socket.socket) -> AsyncIterator[tuple[Browsers, str]]:
    """A pool for the length of the block, and the name of its browser. Raises SettingsError."""
    try:
        browser = await asyncio.to_thread(find_browser, settings.browser)
    except NoBrowserError as error:
        raise SettingsError(str(error)) from error
    forbidden = await _servers(settings, bound)
    guard = NetworkGuard(NetworkRules.parse(settings.allow_network, forbidden=forbidden))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(guard.close)
        pool = BrowserPool(browser, guard, BrowserSession.open, pool_settings(settings))
        stack.push_async_callback(pool.close)
        await _start(pool)
        yield pool, f"{browser.name} {browser.version}"


async def _servers(settings: Settings, bound: socket.socket) -> list[Endpoint]:
    """Where this server and its master listen: no page may talk to those who run it."""
    host, port = bound.getsockname()[:2]
    endpoints = [Endpoint(ip_address(host), port)]
    if settings.master is not None:
        master = urlsplit(settings.master)
        port = master.port or DEFAULT_PORTS[master.scheme]
        loop = asyncio.get_running_loop()
        try:
            with Limit(RESOLVED_WITHIN):
                found = await loop.getaddrinfo(master.hostname, port, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError) as error:
            raise SettingsError(f"the master {settings.master} has no address: {error}") from error
        endpoints += {Endpoint(ip_address(address[0]), port) for *_, address in found}
    return endpoints


async def _start(pool: Browsers) -> None:
    try:
        await pool.__aenter__()
    except LaunchError as error:
        raise SettingsError(f"the browser cannot be started: {error}") from error


def pool_settings(settings: Settings) -> PoolSettings:
    return PoolSettings(
        capacity=settings.sessions,
        sessions_per_browser=settings.sessions_per_browser,
        longest_age=settings.browser_minutes * 60,
        most_sessions=settings.browser_sessions,
        browser_memory=settings.browser_megabytes * MEGABYTE,
    )
