"""The scene for a real browser behind the guard: a site it may see, and a server it may not."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address

from playwright.async_api import Browser, Error, Page

from webgym.browser.guard.addresses import IpAddress
from webgym.browser.guard.dialler import GuardLimits, ProtocolFactory, connect_directly
from webgym.browser.guard.guard import PROXY_BYPASS, NetworkGuard, SessionChannel
from webgym.browser.guard.resolver import UnresolvedError
from webgym.browser.guard.rules import NetworkRules

PATIENCE = 60.0
PUBLIC = ip_address("93.184.216.34")
HTML = "text/html; charset=utf-8"


class Forbidden:
    """The server that must see no connection, by TCP or UDP."""

    def __init__(self) -> None:
        self.connections = 0
        self.datagrams = 0
        self.port = 0

    @asynccontextmanager
    async def served(self) -> AsyncIterator["Forbidden"]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connections(self), "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        datagrams, _ = await loop.create_datagram_endpoint(
            lambda: _Datagrams(self), ("127.0.0.1", self.port)
        )
        try:
            yield self
        finally:
            datagrams.close()
            server.close()
            await server.wait_closed()


class _Connections(asyncio.Protocol):
    def __init__(self, owner: Forbidden) -> None:
        self._owner = owner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._owner.connections += 1
        transport.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, owner: Forbidden) -> None:
        self._owner = owner

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._owner.datagrams += 1


class Site:
    """The allowed server: a page for each path, and a redirect for `/to?…`."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[str, bytes]] = {}
        self.asked: list[str] = []
        self.port = 0

    @asynccontextmanager
    async def served(self) -> AsyncIterator["Site"]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            self.asked.append(path)
            kind, body = self.pages.get(path, (HTML, b"<title>site</title><body>the site</body>"))
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            if path.startswith("/to?"):
                head = f"HTTP/1.1 302 Found\r\nLocation: {path[4:]}\r\nContent-Length: 0\r\n"
                body = b""
            writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
            await writer.drain()
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()


class Names:
    """Answers to be given one after the other, the last one for ever."""

    def __init__(self) -> None:
        self.answers: dict[str, list[str]] = {}

    async def resolve(self, name: str) -> Sequence[IpAddress]:
        answers = self.answers.get(name)
        if answers is None:
            raise UnresolvedError(f"{name} has no address")
        return [ip_address(answers.pop(0) if len(answers) > 1 else answers[0])]

    async def close(self) -> None:
        return


class Stage:
    """A page behind a channel, the site it may see and the server it may not."""

    def __init__(self, browser: Browser, limits: GuardLimits) -> None:
        self.browser = browser
        self.limits = limits
        self.site = Site()
        self.forbidden = Forbidden()
        self.names = Names()
        self.dialled: list[str] = []
        self.channel: SessionChannel
        self.page: Page

    @property
    def allowed_url(self) -> str:
        return f"http://127.0.0.1:{self.site.port}"

    @property
    def forbidden_url(self) -> str:
        return f"http://127.0.0.1:{self.forbidden.port}"

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["Stage"]:
        async with self.site.served(), self.forbidden.served():
            rules = NetworkRules.parse([f"loopback:{self.site.port}"])
            guard = NetworkGuard(rules, self.names, connect=self._connect, limits=self.limits)
            self.channel = await guard.open_channel()
            proxy = {"server": self.channel.proxy_server, "bypass": PROXY_BYPASS}
            context = await self.browser.new_context(proxy=proxy)  # type: ignore[arg-type]
            try:
                self.page = await context.new_page()
                yield self
            finally:
                await context.close()
                await guard.close()

    async def visit(self, url: str) -> None:
        """Open a page, or fail to."""
        try:
            await self.page.goto(url, timeout=PATIENCE * 1000)
        except Error as error:
            if "Timeout" in str(error):
                raise

    async def show(self, body: str, path: str = "/page") -> None:
        """Serve and open a page of the allowed site. What it asks for is not waited for."""
        self.site.pages[path] = (HTML, body.encode())
        await self.page.goto(self.allowed_url + path, wait_until="commit")

    async def refused(self, port: int | None = None) -> None:
        """Wait for the rejection, and check that no connection got through."""
        port = port or self.forbidden.port
        async with asyncio.timeout(PATIENCE):
            while all(refusal.port != port for refusal in self.channel.rejections.targets):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert self.forbidden.connections == 0

    async def _connect(self, address: IpAddress, port: int, protocol: ProtocolFactory) -> None:
        """The connector of production, with one public address that leads to the site."""
        self.dialled.append(f"{address}:{port}")
        if address == PUBLIC:
            address, port = ip_address("127.0.0.1"), self.site.port
        await connect_directly(address, port, protocol)
