"""A real browser server, a web site of the test, and a session that visits it.

The server is the product's command in a separate process, one for all tests (the fixture `browser`
in `conftest.py`). Each test gets a site on its own port, so that no two tests share an origin, and
sessions that are released when it ends. A page shows in its title or its text what happened to it;
the requests that reached the site are in `Site.asked`.
"""

import asyncio
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TextIO

import msgspec
import pytest
import uvloop
from aiohttp import web

from webgym.browser.chromium.executable import NoBrowserError, find_browser
from webgym.browser.chromium.process_tree import read_groups
from webgym.browser.contract.answers import CommandFailure, Element, Observe, Picture, StepAnswer
from webgym.browser.contract.commands import (
    ClickCoords,
    ClickId,
    Command,
    FillCoords,
    FillId,
    HoverCoords,
    HoverId,
    InteractionMode,
    VisitPage,
)
from webgym.browser.contract.profile import SessionProfile
from webgym.client.client import BrowserClient, BrowserSession

PATIENCE = 90.0
AT_ONCE = 8
CAPACITY = 20
MODES: tuple[InteractionMode, ...] = ("coordinates", "set_of_marks")
VIEWPORT = (1280, 768)
_SERVE = (sys.executable, "-m", "webgym.browser", "serve")
_OPTIONS = ("--port", "0", "--allow-network", "127.0.0.1", "--allow-proxy", "127.0.0.1")

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Scenario = Callable[["Visitor"], Coroutine[Any, Any, None]]


class Site:
    """Pages by their path: HTML, or a function that answers. All others are missing."""

    def __init__(self) -> None:
        self.pages: dict[str, str | Handler] = {"/favicon.ico": _nothing}
        self.asked: list[str] = []
        """Paths with queries, in the order of the requests; browsers' own questions left out."""
        self.url = ""

    @asynccontextmanager
    async def serving(self) -> "AsyncIterator[Site]":
        server = web.Server(self._answer, handler_cancellation=True)
        runner = web.ServerRunner(server)
        await runner.setup()
        try:
            listening = web.TCPSite(runner, "127.0.0.1", 0)
            await listening.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield self
        finally:
            await server.shutdown(0.1)
            await runner.cleanup()

    def count(self, path: str) -> int:
        return self.asked.count(path)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path != "/favicon.ico":
            self.asked.append(request.path_qs)
        page = self.pages.get(request.path)
        if page is None:
            return html("<title>Missing</title>", 404)
        return html(page) if isinstance(page, str) else await page(request)


class Visitor:
    """A session on a site. Commands that a page does not allow fail the test, but for `refused`."""

    def __init__(
        self, site: Site, client: BrowserClient, session: BrowserSession, mode: InteractionMode
    ) -> None:
        self.site = site
        self.client = client
        self.session = session
        self.mode = mode

    async def step(
        self,
        command: Command | None = None,
        observe: Observe | None = None,
        *,
        within: float | None = None,
    ) -> StepAnswer:
        answer = await self.session.step(command, observe or Observe(self.mode), within=within)
        assert answer.error is None, answer.error
        return answer

    async def refused(self, command: Command, *, within: float | None = None) -> CommandFailure:
        """Why a command was not carried out; the screenshot is there all the same."""
        answer = await self.session.step(command, within=within)
        assert answer.error is not None, answer.result
        assert size_of(answer.screenshot) == VIEWPORT
        return answer.error

    async def visit(self, path: str = "/") -> StepAnswer:
        return await self.step(VisitPage(self.site.url + path))

    async def show(self, page: str, path: str = "/") -> StepAnswer:
        """Visit a page that is written now. Without a doctype of its own it gets one."""
        self.site.pages[path] = page if page.startswith("<!") else f"<!doctype html>{page}"
        return await self.visit(path)

    async def elements(self) -> dict[str, Element]:
        """By name."""
        rects = msgspec.convert(await self.session.get_interactive_rects(), dict[str, Element])
        return {element.name: element for element in rects.values()}

    async def element(self, name: str) -> Element:
        found = await self.elements()
        assert name in found, list(found)
        return found[name]

    async def click(self, name: str) -> StepAnswer:
        """Click the element of this name, as one does in the visitor's mode."""
        element = await self.element(name)
        by_id = self.mode == "set_of_marks"
        return await self.step(ClickId(element.id) if by_id else ClickCoords(*middle(element)))

    async def hover(self, name: str) -> StepAnswer:
        element = await self.element(name)
        by_id = self.mode == "set_of_marks"
        return await self.step(HoverId(element.id) if by_id else HoverCoords(*middle(element)))

    async def fill(
        self, name: str, value: str, *, enter: bool = False, replace: bool = False
    ) -> StepAnswer:
        element = await self.element(name)
        if self.mode == "set_of_marks":
            return await self.step(FillId(element.id, value, enter, replace))
        return await self.step(FillCoords(*middle(element), value, enter, replace))

    async def text(self) -> str:
        return await self.session.get_webpage_text()

    async def in_turn(self, scenarios: Mapping[str, Scenario]) -> None:
        """Run them one after the other in this session."""
        for name, scenario in scenarios.items():
            try:
                await scenario(self)
            except Exception as error:
                error.add_note(f"this was: {name}")
                raise

    async def at_once(self, scenarios: Mapping[str, Scenario]) -> None:
        """Run them all, each in a session of its own on the same site, a few at a time."""
        waiting = iter(scenarios.items())

        async def work() -> None:
            for name, scenario in waiting:
                try:
                    async with self.another() as visitor:
                        await scenario(visitor)
                except Exception as error:
                    error.add_note(f"this was: {name}")
                    raise

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())

    @asynccontextmanager
    async def another(self, profile: SessionProfile | None = None) -> "AsyncIterator[Visitor]":
        """A second session on the same site."""
        async with self.client.session(profile=profile) as session:
            yield Visitor(self.site, self.client, session, self.mode)


class Server:
    """A browser server for tests."""

    def __init__(self, pid: int, url: str) -> None:
        self.pid = pid
        self.url = url
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)

    def browse(self, scenario: Scenario, mode: InteractionMode = "coordinates") -> None:
        """Run the scenario of a test in a session."""
        self._runner.run(self._browse(scenario, mode))

    def browse_all(self, *scenarios: Scenario) -> None:
        """Run scenarios at the same time, each on its own site."""
        self._runner.run(self._browse_all(scenarios))

    def browse_in_both_modes(self, scenario: Scenario) -> None:
        """Run the scenario in two sessions at the same time, one for each mode."""
        self._runner.run(self._browse_in_both_modes(scenario))

    def pages(self) -> set[int]:
        """The processes of the pages of all its browsers."""
        return self.processes("renderer")

    def processes(self, kind: str) -> set[int]:
        """Those of one kind, of all its browsers."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        groups = read_groups([int(pid) for pid in children]).values()
        return {each.pid for group in groups for each in group if each.kind == kind}

    def close(self) -> None:
        self._runner.close()

    async def _browse_all(self, scenarios: tuple[Scenario, ...]) -> None:
        async with asyncio.TaskGroup() as group:
            for scenario in scenarios:
                group.create_task(self._browse(scenario, "coordinates"))

    async def _browse_in_both_modes(self, scenario: Scenario) -> None:
        async with asyncio.TaskGroup() as group:
            for mode in MODES:
                group.create_task(self._browse(scenario, mode))

    async def _browse(self, scenario: Scenario, mode: InteractionMode) -> None:
        async with (
            asyncio.timeout(PATIENCE),
            Site().serving() as site,
            BrowserClient(self.url, deadline_seconds=PATIENCE / 2) as client,
            client.session() as session,
        ):
            await scenario(Visitor(site, client, session, mode))


@contextmanager
def server(*flags: str) -> Iterator[Server]:
    """A server for the length of the block. It must end well, and nothing may have broken in it."""
    environment = {**os.environ, "CPU_CLUSTER_TOKEN": ""}
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            [*_SERVE, *_OPTIONS, *flags],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            urls = [word.rstrip(":,;") for word in said.split() if word.startswith("http://")]
            assert urls, said + _read(log)
            serving = Server(process.pid, urls[0])
            try:
                yield serving
            finally:
                serving.close()
        finally:
            process.terminate()
            process.wait(PATIENCE)
        assert process.returncode == 0, _read(log)
        assert "Traceback" not in _read(log), _read(log)


def shared_server(*flags: str) -> Iterator[Server]:
    """The body of a fixture: a server for its tests, if there is a Chromium."""
    try:
        find_browser()
    except NoBrowserError:
        pytest.skip("there is no Chromium here")
    with server(*flags) as serving:
        yield serving


def html(page: str, status: int = 200) -> web.Response:
    return web.Response(text=page, content_type="text/html", status=status)


async def never(_: web.BaseRequest) -> web.StreamResponse:
    """Accepts a request and does not answer it."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def _nothing(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=204)


def middle(element: Element) -> tuple[float, float]:
    return element.box.x + element.box.width / 2, element.box.y + element.box.height / 2


def kinds(answer: StepAnswer) -> list[str]:
    """Of the incidents."""
    return [incident.kind for incident in answer.incidents]


def size_of(picture: Picture | None) -> tuple[int, int]:
    """In pixels, as the picture itself says."""
    assert picture is not None
    data = picture.data
    match picture.media_type:
        case "image/png":
            assert data.startswith(b"\x89PNG\r\n\x1a\n")
            width, height = struct.unpack(">II", data[16:24])
        case "image/jpeg":
            assert data.startswith(b"\xff\xd8\xff")
            height, width = struct.unpack(">HH", _start_of_frame(data)[5:9])
        case "image/webp":
            assert (data[:4], data[8:16]) == (b"RIFF", b"WEBPVP8X")
            width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
        case _:
            raise AssertionError(picture.media_type)
    return width, height


def _start_of_frame(jpeg: bytes) -> bytes:
    at = 2
    while jpeg[at + 1] not in (0xC0, 0xC1, 0xC2):
        at += 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
    return jpeg[at:]


def _read(log: TextIO) -> str:
    log.seek(0)
    return log.read()
