"""`rollgym browser serve`: one browser server, assembled for its role and run until stopped."""

import asyncio
import logging
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from urllib.parse import urlsplit

import aiohttp

from rollgym.cli.process import say
from rollgym.engine import run as run_loop
from rollgym.servers.limit import Limit
from webgym.browser.chromium.executable import NoBrowserError, find_browser
from webgym.browser.chromium.process import LaunchError
from webgym.browser.guard.guard import NetworkGuard
from webgym.browser.guard.rules import ForbiddenEndpoint, NetworkRules
from webgym.browser.master.master import Master
from webgym.browser.master.nodes import LocalNode
from webgym.browser.master.registration import Registrar, Registration
from webgym.browser.master.remote import CONNECT_SECONDS
from webgym.browser.node import BrowserNode
from webgym.browser.pool.pool import BrowserPool
from webgym.browser.routes import ServerRoutes, browser_access, listening
from webgym.browser.settings import BrowserSettings, BrowserSettingsError, read_settings, read_token
from webgym.served import until_stopped

KEEPALIVE_SECONDS = 30.0
RESOLVE_SECONDS = 10.0
DEFAULT_PORTS = {"http": 80, "https": 443}
_ANYWHERE = frozenset(("0.0.0.0", "::"))  # noqa: S104 - only compared
_NAMES = {"both": "server", "master": "master", "node": "node"}
_LOGGER = logging.getLogger("webgym.browser")


def serve(given: Mapping[str, object]) -> int:
    """Serve with these settings until a signal; returns the exit status.

    Raises BrowserSettingsError.
    """
    token = read_token()
    settings = read_settings(given, token)
    log_events()
    return run_loop(until_stopped(_run_server(settings, token)))


async def _run_server(settings: BrowserSettings, token: str | None) -> None:
    bound = bind(settings)
    try:
        url = url_of(settings, bound)
        if not settings.has_browsers:
            async with serving(settings, token, bound, None):
                await _announce_and_wait(settings, url, "waiting for nodes (--role node --master)")
            return
        async with (
            browsers(settings, bound) as (pool, name),
            serving(settings, token, bound, pool),
        ):
            await _announce_and_wait(settings, url, f"{pool.capacity} sessions, {name}")
    finally:
        bound.close()


async def _announce_and_wait(settings: BrowserSettings, url: str, about: str) -> None:
    """Print that the server is ready, then wait until this is cancelled."""
    at = "" if settings.master is None else f", master {settings.master}"
    say(f"Browser {_NAMES[settings.role]} ready at {url}: {about}{at}. Press Ctrl-C to stop.")
    await asyncio.Event().wait()


def log_events() -> None:
    """Log events of browsers and nodes, and warnings, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    logging.getLogger().addHandler(handler)
    _LOGGER.setLevel(logging.INFO)
    # A client that sends no valid HTTP gets 400; that needs no log line.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    # A closed standard error stops the log, but not the server.
    logging.raiseExceptions = False


def bind(settings: BrowserSettings) -> socket.socket:
    """The socket of a server. Raises BrowserSettingsError if it cannot be bound."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((settings.host, settings.bound_port))
    except (OSError, UnicodeError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or error
        raise BrowserSettingsError(
            f"cannot listen on {settings.host} port {settings.bound_port} ({reason}): choose "
            "another with --port, or 0 for any"
        ) from error
    return bound


def url_of(settings: BrowserSettings, bound: socket.socket) -> str:
    """The URL of this server: the setting `url`, or what it can find out itself."""
    if settings.url is not None:
        return settings.url.rstrip("/")
    host = settings.host
    if host in _ANYWHERE:
        host = _address_towards(settings.master) or socket.gethostname()
    brackets = f"[{host}]" if ":" in host else host
    return f"http://{brackets}:{bound.getsockname()[1]}"


@asynccontextmanager
async def serving(
    settings: BrowserSettings, token: str | None, bound: socket.socket, pool: BrowserPool | None
) -> AsyncIterator[Master]:
    """Serve on this socket until the end of the block, which ends every session.

    A server with browsers gets a started pool, which the caller closes.
    """
    url = url_of(settings, bound)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(_http_session())
        node = (
            None
            if pool is None
            else BrowserNode(pool, settings.idle_seconds, settings.first_use_seconds)
        )
        local = None if node is None else LocalNode(url, node)
        master = Master(settings, local, http if settings.accepts_nodes else None)
        routes = ServerRoutes(settings, master, token)
        # The listener starts first and stops last, so that waiting clients get the reason.
        await stack.enter_async_context(
            listening(routes, browser_access(settings.host, token), bound)
        )
        await stack.enter_async_context(master)
        if node is not None:
            node.changed = master.serve
            await stack.enter_async_context(node)
            if settings.master is not None:
                await stack.enter_async_context(_registrar(settings.master, token, url, node, http))
        yield master


def _registrar(
    master_url: str, token: str | None, url: str, node: BrowserNode, http: aiohttp.ClientSession
) -> Registrar:
    def state() -> Registration:
        return Registration(url, node.boot, node.capacity, node.available, node.instances)

    registrar = Registrar(master_url, token, http, state, node.end)
    serve = node.changed

    def changed() -> None:
        serve()
        registrar.report_soon()

    node.changed = changed
    return registrar


def _http_session() -> aiohttp.ClientSession:
    """An HTTP client for any number of concurrent calls, each with its own timeout."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0, ttl_dns_cache=60, keepalive_timeout=KEEPALIVE_SECONDS
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        auto_decompress=False,
    )


def _address_towards(url: str | None) -> str | None:
    """The address of this machine as the other one sees it. Nothing is sent."""
    parts = urlsplit(url or "")
    if not parts.hostname:
        return None
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as towards:
            towards.connect(address)
            return str(towards.getsockname()[0])
    except OSError:
        return None


@asynccontextmanager
async def browsers(
    settings: BrowserSettings, bound: socket.socket
) -> AsyncIterator[tuple[BrowserPool, str]]:
    """A pool of real browsers behind the network guard, and the name of the browser.

    The pool is open for the length of the block. Raises BrowserSettingsError.
    """
    try:
        browser = await asyncio.to_thread(find_browser, settings.browser)
    except NoBrowserError as error:
        raise BrowserSettingsError(str(error)) from error
    forbidden = await _own_endpoints(settings, bound)
    guard = NetworkGuard(
        NetworkRules.parse(settings.allow_network, forbidden=forbidden),
        proxy_rules=NetworkRules.parse(settings.allow_proxy),
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(guard.close)
        pool = BrowserPool(browser, guard, settings)
        stack.push_async_callback(pool.close)
        try:
            await pool.__aenter__()
        except LaunchError as error:
            raise BrowserSettingsError(f"the browser cannot be started: {error}") from error
        yield pool, f"{browser.name} {browser.version}"


async def _own_endpoints(
    settings: BrowserSettings, bound: socket.socket
) -> list[ForbiddenEndpoint]:
    """The endpoints of this server and its master, which no page may reach."""
    host, port = bound.getsockname()[:2]
    endpoints = [ForbiddenEndpoint(ip_address(host), port)]
    if settings.master is not None:
        master = urlsplit(settings.master)
        port = master.port or DEFAULT_PORTS[master.scheme]
        loop = asyncio.get_running_loop()
        try:
            with Limit(RESOLVE_SECONDS):
                found = await loop.getaddrinfo(master.hostname, port, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError) as error:
            raise BrowserSettingsError(
                f"the master {settings.master} has no address: {error}"
            ) from error
        endpoints += {ForbiddenEndpoint(ip_address(address[0]), port) for *_, address in found}
    return endpoints
