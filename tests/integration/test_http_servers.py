"""The bounds of requests, at every HTTP server that this product has."""

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rollgym.servers import bounds, listening
from rollgym.servers.config.instances import Address
from rollgym.servers.launch.head import head_listening
from rollgym.viewer.server import serving as serving_viewer
from tests.cases import for_each
from tests.integration.servers.workshop import workshop
from tests.integration.webgym.miniwob.small_package import make_package
from tests.integration.webgym.policies.test_server import policy_server
from tests.ports import free_port
from webgym.browser.server import serving as serving_browsers
from webgym.browser.settings import BrowserSettings
from webgym.miniwob.application import serving as serving_miniwob
from webgym.policies.server import serving as serving_policy
from webgym.sites.application import serving as serving_sites

Url = AbstractAsyncContextManager[str]
LOCAL = "127.0.0.1"


@asynccontextmanager
async def _gym_server(_: Path) -> AsyncIterator[str]:
    async with listening(workshop()) as port:
        yield f"http://{LOCAL}:{port}/echo"


@asynccontextmanager
async def _head(_: Path) -> AsyncIterator[str]:
    head = Address(port=free_port())
    async with head_listening(head, list):
        yield f"{head.url}/server_instances"


@asynccontextmanager
async def _browser_server(_: Path) -> AsyncIterator[str]:
    bound = bounds.bound_socket(LOCAL, 0)
    port = bound.getsockname()[1]
    async with serving_browsers(BrowserSettings(), None, bound, None):
        yield f"http://{LOCAL}:{port}/get"


SERVERS: dict[str, Callable[[Path], Url]] = {
    "model, agent, environment": _gym_server,
    "head": _head,
    "viewer": lambda folder: serving_viewer([folder], LOCAL, 0),
    "browser": _browser_server,
    "policy": lambda _: serving_policy(policy_server(), port=0),
    "sites": lambda _: serving_sites(port=0),
    "miniwob": lambda folder: serving_miniwob(port=0, package=make_package(folder)),
}


@for_each("name", list(SERVERS))
def test_every_server_has_bounds(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def status(url: str, *headers: str) -> int:
        """The status of the answer to the headers alone; no body follows."""
        lines = [f"GET {urlsplit(url).path or '/'} HTTP/1.1", "Host: localhost", *headers]
        answer = await said(url, "\r\n".join([*lines, "", ""]).encode(), b"\r\n")
        return int(answer.split()[1])

    async def said(url: str, sent: bytes, until: bytes) -> bytes:
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            writer.write(sent)
            return await reader.readuntil(until) if until else await reader.read()
        finally:
            writer.close()

    async def scenario() -> None:
        async with SERVERS[name](tmp_path) as url, asyncio.timeout(60):
            assert await status(url, "Content-Encoding: gzip", "Content-Length: 100") == 415
            assert await status(url, "Content-Encoding: br", "Transfer-Encoding: chunked") == 415
            assert await status(url, f"Content-Length: {2**40}") == 413
            monkeypatch.setattr(bounds, "HEADER_SECONDS", 0.05)
            assert await said(url, b"GET / HTTP/1.1\r\nHost: local", b"") == b""

    asyncio.run(scenario())


SERVE = """
import asyncio, resource, sys
from rollgym.servers import listening
from rollgym.servers.launch.logs import log_to
from tests.integration.servers.workshop import workshop

async def serve() -> None:
    async with listening(workshop()) as port:
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        print(port, flush=True)
        await asyncio.Event().wait()

log_to("warning")
asyncio.run(serve())
"""


def test_a_server_without_file_descriptors_says_so_once_a_second_and_goes_on() -> None:
    command = [sys.executable, "-c", SERVE]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())

        async def scenario() -> bytes:
            async with asyncio.timeout(60):
                idle = [await asyncio.open_connection(LOCAL, port) for _ in range(100)]
                reader, writer = await asyncio.open_connection(LOCAL, port)
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert server.stderr is not None
                first = await asyncio.to_thread(server.stderr.readline)
                for _, other in idle:
                    other.close()
                await reader.readuntil(b'"status":"ok"')
                writer.close()
                return first

        try:
            first = asyncio.run(scenario())
        finally:
            server.kill()
        assert server.stderr is not None
        lines = [first, *server.stderr.readlines()]
    assert b"no file descriptor is left (limit: 40)" in first
    assert len(lines) <= 2 + time.monotonic() - began
    assert not re.search(rb"Traceback", b"".join(lines))
