"""Browser servers on real sockets with fake pools, and a client that shows what it was told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args

import aiohttp
import msgspec

from rollgym.engine import run as run_loop
from tests.cases import for_each
from tests.integration.webgym.browser.server.fake_pool import FakePool
from webgym.browser.master.master import Master
from webgym.browser.pool.pool import BrowserPool
from webgym.browser.server import bind, serving, url_of
from webgym.browser.settings import BrowserSettings

PATIENCE = 60.0
T = TypeVar("T")


class Told(NamedTuple):
    """What a server answered."""

    status: int
    body: bytes
    headers: dict[str, str]
    json: Any

    @property
    def kind(self) -> str:
        """The type of the error."""
        return str(self.json["error"]["type"])

    @property
    def message(self) -> str:
        assert self.json["message"] == self.json["error"]["message"]
        return str(self.json["message"])


class Client:
    """Speaks the contract by hand."""

    def __init__(self, http: aiohttp.ClientSession, url: str, **headers: str) -> None:
        self._http = http
        self.url = url
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def ask(self, method: str, path: str, json: object = None, **query: object) -> Told:
        given = {name: str(value) for name, value in query.items()}
        body = json if isinstance(json, bytes) else msgspec.json.encode(json) if json else b""
        async with (
            asyncio.timeout(PATIENCE),
            self._http.request(
                method,
                self.url + path,
                params=given,
                data=BytesIO(body) if body else None,
                headers=self._headers,
            ) as response,
        ):
            told = await response.read()
            is_json = response.content_type == "application/json"
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Told(response.status, told, headers, await response.json() if is_json else None)

    async def get(self, **query: object) -> Told:
        return await self.ask("POST", "/get", **query)

    async def lease(self, **query: object) -> dict[str, str]:
        """A session that must be had: the whole answer, which is sent back as others do."""
        told = await self.get(**query)
        assert told.status == 200, told
        return dict(told.json)

    async def reset(self, lease: dict[str, str]) -> Told:
        return await self.ask("POST", "/reset", **lease)

    async def visit(self, lease: dict[str, str], url: str, **more: object) -> Told:
        body = {**lease, "visit_page": {"url": url}, **more}
        return await self.ask("POST", "/execute", json=body)

    async def probe(self, lease: dict[str, str]) -> Told:
        return await self.ask("GET", "/probe", **lease)

    async def nodes(self) -> list[dict[str, Any]]:
        told = await self.ask("GET", "/info")
        assert told.status == 200, told
        nodes: list[dict[str, Any]] = told.json["nodes"]
        return nodes


class Served(NamedTuple):
    """A server, and how to reach it."""

    url: str
    master: Master
    port: int

    def client(self, http: aiohttp.ClientSession, **headers: str) -> Client:
        return Client(http, self.url, **headers)


@asynccontextmanager
async def server(
    pool: FakePool | None = None, token: str | None = None, **settings: Any
) -> AsyncIterator[Served]:
    """A server on any free port, with everything short where a test would have to wait."""
    chosen = BrowserSettings(**{"port": 0, **settings})
    chosen.check(token)
    bound = bind(chosen)
    try:
        async with serving(chosen, token, bound, cast("BrowserPool | None", pool)) as master:
            yield Served(url_of(chosen, bound), master, bound.getsockname()[1])
    finally:
        bound.close()


@asynccontextmanager
async def client_of(
    pool: FakePool | None = None, token: str | None = None, **settings: Any
) -> AsyncIterator[Client]:
    """A client of a server with this pool."""
    headers = {} if token is None else {"x_api_key": token}
    async with server(pool, token, **settings) as served, aiohttp.ClientSession() as http:
        yield served.client(http, **headers)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds; fails the test where it never does."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - it may be anything
            await asyncio.sleep(0.01)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """On the loop that servers run on."""
    run_loop(scenario)


Topology = Literal["one server", "a master and a node"]
over_both = for_each("topology", get_args(Topology))


@asynccontextmanager
async def reached(
    topology: Topology, pool: FakePool, token: str | None = None, **settings: Any
) -> AsyncIterator[Client]:
    """A client of the pool, directly or through a master."""
    if topology == "one server":
        async with client_of(pool, token, **settings) as client:
            yield client
        return
    async with (
        client_of(None, token, role="master", **settings) as client,
        server(pool, token, **{**settings, "role": "node", "master": client.url}),
    ):
        await nodes_are(client, True)
        yield client


async def nodes_are(client: Client, *healthy: bool) -> None:
    """Wait until the master sees its nodes like this."""
    await eventually(
        lambda nodes: [node["healthy"] for node in nodes] == list(healthy), client.nodes
    )


async def in_line(client: Client, count: int) -> None:
    """Wait until so many requests wait for a session."""

    async def info() -> Told:
        return await client.ask("GET", "/info")

    await eventually(lambda told: told.json["waiting"] == count, info)


async def eventually(holds: Callable[[T], bool], ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until the answer is right; that answer."""
    async with asyncio.timeout(PATIENCE):
        while not holds(answer := await ask()):  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.02)
    return answer


class Nodes:
    """Nodes of a master that can also be stopped one by one."""

    def __init__(self, master: str, **settings: Any) -> None:
        self._settings = {"role": "node", "master": master, **settings}
        self._stops: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> "Nodes":
        return self

    async def __aexit__(self, *_: object) -> None:
        for url in list(self._tasks):
            await self.stop(url)

    async def add(self, pool: FakePool, port: int = 0) -> Served:
        started: asyncio.Future[Served] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()

        async def live() -> None:
            try:
                async with server(pool, **self._settings, port=port) as served:
                    started.set_result(served)
                    await stop.wait()
            except BaseException as error:
                if not started.done():
                    started.set_exception(error)
                raise

        task = asyncio.ensure_future(live())
        served = await started
        self._stops[served.url], self._tasks[served.url] = stop, task
        return served

    async def stop(self, url: str) -> None:
        self._stops[url].set()
        await self._tasks.pop(url)
