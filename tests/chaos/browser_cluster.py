"""A browser server as real processes that can be killed, and sessions at work in it.

Each worker goes through episodes, one after another: it takes a session, checks that it was unused
before, leaves its own name in it, and makes steps that all must show that name. What goes wrong is
noted by its type. Anything that is not one of the typed errors ends the test.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from rollgym.records import RolloutError
from tests.ports import free_port
from webgym.browser.chromium.process_tree import read_groups
from webgym.browser.contract.answers import Observe, StepAnswer
from webgym.browser.contract.commands import ClickCoords, VisitPage
from webgym.browser.master.registration import node_hash
from webgym.client.client import BrowserClient, BrowserSession

PATIENCE = 60.0
STEPS = 2
NOBODY = "nobody"
PNG = b"\x89PNG"


class ServerProcess:
    """One `rollgym browser serve`."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / f"{name}.log"
        self._arguments = arguments
        self.start()

    def start(self) -> None:
        """Start it, or start it again at the same address."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "webgym.browser", "serve"),
                    *("--port", str(self.port), *self._arguments),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    async def is_ready(self, times: int = 1) -> None:
        """Until it has said so, as often as it was started."""

        def ready() -> bool:
            assert self.process.poll() is None, self.said
            return self.said.count(" ready at ") >= times

        await until(ready, "the server is ready")

    def browsers(self) -> list[int]:
        """The process groups of its Chromiums."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def busiest_browser(self) -> int:
        """The process group of the Chromium with the most pages."""
        groups = read_groups(self.browsers())
        pages = {
            group: sum(each.kind == "renderer" for each in processes)
            for group, processes in groups.items()
        }
        return max(pages, key=pages.__getitem__)

    def processes(self, kind: str) -> list[int]:
        """Those of its Chromiums' processes that are of this kind."""
        groups = read_groups(self.browsers())
        return [each.pid for group in groups.values() for each in group if each.kind == kind]

    def memory(self) -> int:
        groups = read_groups(self.browsers())
        return sum(each.memory for group in groups.values() for each in group)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE)


class Load:
    """Workers in sessions, and what they met."""

    def __init__(self, client: BrowserClient, pages: str, workers: int) -> None:
        self.errors: Counter[str] = Counter()
        self.finished = Counter(dict.fromkeys(range(workers), 0))
        self.steps = 0
        self.last_error = 0.0
        self._client = client
        self._pages = pages
        self._held: set[tuple[str, str]] = set()
        self._ending = False

    def end(self) -> None:
        """Let every worker finish its episode."""
        self._ending = True

    def sessions_at(self, url: str) -> int:
        """How many sessions of the node at this URL the workers use now."""
        return sum(node == node_hash(url) for node, _ in self._held)

    async def everybody_finishes(self, episodes: int, why: str) -> None:
        """Until each worker has finished so many more."""
        before = Counter(self.finished)

        def enough() -> bool:
            return all(self.finished[each] - before[each] >= episodes for each in self.finished)

        await until(enough, f"{why}: {self.finished - before}, {self.errors}")

    async def work(self, name: int) -> None:
        while not self._ending:
            try:
                session = await self._client.get(wait_seconds=PATIENCE)
            except RolloutError as error:
                self._note(error)
                continue
            await self._use(name, session)

    async def _use(self, name: int, session: BrowserSession) -> None:
        lease = (session.lease.node, session.lease.instance_id)
        assert lease not in self._held, "a session was handed to two clients"
        self._held.add(lease)
        try:
            await self._episode(name, session)
            self.finished[name] += 1
        except RolloutError as error:
            self._note(error)
        finally:
            self._held.discard(lease)
            await self._client.release(session)

    async def _episode(self, name: int, session: BrowserSession) -> None:
        me = f"worker-{name}-{self.finished[name]}"
        seen = await self._step(session, VisitPage(f"{self._pages}/?name={me}"))
        if seen is None:
            return
        assert seen.page.title == f"{me}, before: {NOBODY}"
        for _ in range(STEPS):
            seen = await self._step(session, ClickCoords(20, 20))
            if seen is None:
                return
            assert seen.page.title.endswith(f"before: {me}"), seen.page.title

    async def _step(
        self, session: BrowserSession, command: VisitPage | ClickCoords
    ) -> StepAnswer | None:
        """None where the page was lost, which ends the episode but not the session."""
        answer = await session.step(command, Observe("coordinates"))
        self.steps += 1
        assert answer.screenshot is not None
        assert answer.screenshot.data.startswith(PNG)
        if answer.error is None:
            return answer
        self.errors[answer.error.type] += 1
        self.last_error = time.monotonic()
        return None

    def _note(self, error: RolloutError) -> None:
        self.errors[getattr(error, "type", error.kind)] += 1
        self.last_error = time.monotonic()


@asynccontextmanager
async def pages() -> AsyncIterator[str]:
    """Pages that say who is asking and who was here before, by a cookie."""

    async def answer(request: web.Request) -> web.Response:
        name = request.query.get("name", "")
        before = request.cookies.get("name", NOBODY)
        text = f"<title>{name}, before: {before}</title>"
        link = '<a href="/" style="position:fixed;inset:0;background:#def">again</a>'
        response = web.Response(text=f"<!doctype html>{text}{link}", content_type="text/html")
        if name:
            response.set_cookie("name", name)
        return response

    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def until(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience} s: {what}"
        await asyncio.sleep(0.02)
