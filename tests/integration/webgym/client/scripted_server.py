"""A browser server that does what the test says, on a real socket, also what no server should do.

It shares no code with ours: requests are read byte by byte, answers are written as they are given.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

PNG = b"\x89PNG\r\n\x1a\n" + b"picture" * 100
PAGE = {"url": "http://shop.test/", "title": "Shop"}


class Asked(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


Answering = Callable[[Asked], Awaitable[bytes | None]]
"""The bytes of an answer; None cuts the connection as a crash does."""


def answer(
    body: object, status: int = 200, content_type: str = "application/json", **headers: str
) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", f"content-type: {content_type}"]
    lines += [f"content-length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


def fault(kind: str, status: int, message: str = "it broke", **headers: str) -> bytes:
    reported = {"type": kind, "message": message, "retryable": False}
    return answer({"status": "error", "message": message, "error": reported}, status, **headers)


class ScriptedServer:
    """What was asked, and the answers to come: each path has its own, the last one stays."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.left: list[Asked] = []
        self.connections = 0
        self._happened = asyncio.Event()
        self._answers: dict[str, list[bytes | Answering | None]] = {
            "/get": [answer({"instance_id": "i-1", "node": "n-1"})],
            "/reset": [answer({"status": "success"})],
            "/probe": [answer({"status": "success"})],
            "/metadata": [answer({"width": 800, "height": 600})],
            "/screenshot": [answer(PNG, content_type="image/png")],
            "/execute": [answer({"status": "success"})],
            "/step": [answer({"page": PAGE, "result": {}})],
            "/info": [answer({"nodes": []})],
        }

    def script(self, path: str, *answers: bytes | Answering | None) -> None:
        self._answers[path] = list(answers)

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something has come true by a request or by its end."""
        async with asyncio.timeout(10):
            while not holds():
                self._happened.clear()
                await self._happened.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        asked = await _read(reader)
        self.asked.append(asked)
        self._happened.set()
        script = self._answers[asked.path]
        todo = script.pop(0) if len(script) > 1 else script[0]
        if callable(todo):
            answering = asyncio.ensure_future(todo(asked))
            leaving = asyncio.ensure_future(reader.read(1))
            try:
                await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():
                    self.left.append(asked)
                    self._happened.set()
                    return False
                todo = answering.result()
            finally:
                for task in (answering, leaving):
                    task.cancel()
                await asyncio.gather(answering, leaving, return_exceptions=True)
        if todo is None:
            writer.transport.abort()
            return False
        writer.write(todo)
        await writer.drain()
        return b"connection: close" not in todo


async def never(_: Asked) -> bytes:
    """Answer when the caller has long left."""
    await asyncio.sleep(3600)
    return b""


@asynccontextmanager
async def scripted() -> AsyncIterator[tuple[ScriptedServer, str]]:
    """A server and its URL."""
    script = ScriptedServer()
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(script.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield script, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {}
    for line in head[1:]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    return Asked(method, parts.path, dict(parse_qsl(parts.query)), headers, body)
