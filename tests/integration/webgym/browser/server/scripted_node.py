"""A node that does what the test says, also what no node should do."""

import asyncio
import secrets

from aiohttp import web

from tests.integration.webgym.browser.server.harness import Client

CAPACITY = 4


class ScriptedNode:
    """Registers with the master of this client, and keeps on as long as it `speaks`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._boot = secrets.token_hex(4)
        self._runner = web.ServerRunner(web.Server(self._respond, handler_cancellation=True))
        self._url = ""
        self._speaking: asyncio.Task[None] | None = None
        self.instances: list[str] = []
        self.asked_for: list[str] = []
        self.reset: list[str] = []
        self.speaks = True
        self.hangs = False
        self.hanging = 0
        self.breaks_off = False
        self.opens_after = 0.0
        self.answer: tuple[int, str, bytes] = (200, "application/json", b'{"status": "success"}')

    async def __aenter__(self) -> "ScriptedNode":
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        await self.register()
        self._speaking = asyncio.ensure_future(self._speak())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._speaking
        self._speaking.cancel()
        await asyncio.wait({self._speaking})
        await self._runner.cleanup()

    async def register(self, also: list[str] | None = None) -> list[str]:
        """Say what it has; the sessions that the master wants closed."""
        instances = [*self.instances, *(also or [])]
        said = {
            "url": self._url,
            "boot": self._boot,
            "capacity": CAPACITY,
            "available": CAPACITY - len(instances),
            "instances": instances,
        }
        told = await self._client.ask("POST", "/register", said)
        assert told.status == 200, told
        close: list[str] = told.json["close"]
        return close

    def start_anew(self) -> None:
        """As after a crash: it says so with its next heartbeat."""
        self._boot = secrets.token_hex(4)
        self.instances = []

    async def _speak(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            if self.speaks:
                await self.register()

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        if request.path == "/get":
            return await self._open(request.query["instance_id"])
        if request.path == "/reset":
            self.reset.append(request.query["instance_id"])
        if self.hangs:
            self.hanging += 1
            await asyncio.sleep(1000)
        if self.breaks_off:
            assert request.transport
            request.transport.abort()
        status, content_type, body = self.answer
        return web.Response(status=status, body=body, content_type=content_type)

    async def _open(self, instance_id: str) -> web.Response:
        self.asked_for.append(instance_id)
        await asyncio.sleep(self.opens_after)
        self.instances.append(instance_id)
        return web.json_response({"instance_id": instance_id, "node": "whatever"})
