"""One browser server, put together: a socket, a line, browsers or nodes, as its role says."""

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import aiohttp

from webgym.browser.http.access import Access
from webgym.browser.http.front import Front
from webgym.browser.http.listener import listening
from webgym.browser.master import LocalMember, Master
from webgym.browser.master.remote import CONNECT_SECONDS
from webgym.browser.node import Node, Pool, S
from webgym.browser.registration import Registrar, Registration
from webgym.browser.settings import Settings, SettingsError

KEEPALIVE_SECONDS = 30.0
_ANYWHERE = frozenset(("0.0.0.0", "::"))  # noqa: S104 - compared with, not bound


def bind(settings: Settings) -> socket.socket:
    """The socket of a server. Raises SettingsError where it cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((settings.host, settings.bound_port))
    except (OSError, UnicodeError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(
            f"cannot listen on {settings.host} port {settings.bound_port} ({reason}): choose "
            "another with --port, or 0 for any"
        ) from error
    return bound


def url_of(settings: Settings, bound: socket.socket) -> str:
    """Where this server is reached: what it was told, or else what it can know by itself."""
    if settings.url is not None:
        return settings.url.rstrip("/")
    host = settings.host
    if host in _ANYWHERE:
        host = _address_towards(settings.master) or socket.gethostname()
    brackets = f"[{host}]" if ":" in host else host
    return f"http://{brackets}:{bound.getsockname()[1]}"


@asynccontextmanager
async def serving(
    settings: Settings, token: str | None, bound: socket.socket, pool: Pool[S] | None
) -> AsyncIterator[Master]:
    """Serve on this socket until the end of the block, which ends every session.

    The pool is that of a server which has browsers; it must be started, and stays the caller's.
    """
    url = url_of(settings, bound)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(_http_session())
        node = (
            None if pool is None else Node(pool, settings.idle_seconds, settings.first_use_seconds)
        )
        local = None if node is None else LocalMember(url, node)
        master = Master(settings, local, http if settings.listens_to_nodes else None)
        front = Front(settings, master, token)
        # The first to begin is the last to end: whoever still waits is told why it ends.
        await stack.enter_async_context(listening(front, Access(token, settings.host), bound))
        await stack.enter_async_context(master)
        if node is not None:
            node.changed = master.serve
            await stack.enter_async_context(node)
            if settings.master is not None:
                await stack.enter_async_context(_registrar(settings.master, token, url, node, http))
        yield master


def _registrar(
    master_url: str, token: str | None, url: str, node: Node[S], http: aiohttp.ClientSession
) -> Registrar:
    def state() -> Registration:
        return Registration(url, node.boot, node.capacity, node.available, node.instances)

    registrar = Registrar(master_url, token, http, state, node.end)
    serve = node.changed

    def changed() -> None:
        serve()
        registrar.hurry()

    node.changed = changed
    return registrar


def _http_session() -> aiohttp.ClientSession:
    """Connections for any number of concurrent calls; each call bounds its own time."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0, ttl_dns_cache=60, keepalive_timeout=KEEPALIVE_SECONDS
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        auto_decompress=False,
    )


def _address_towards(url: str | None) -> str | None:
    """The address of this machine as the other one would see it. Nothing is sent."""
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
