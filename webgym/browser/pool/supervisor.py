"""Supervises the browsers of a pool: as many as are needed, each of them healthy.

One task supervises. Whenever something changed, and a few times a second, it compares the browsers
that run with those that are needed (`decisions`): it starts browsers, retires them, lets them drain
and ends them. One task for each browser watches its health, and one more reads the memory of all.

*An unexpected error* in these tasks is a bug. It is logged, all browsers are ended, every later
call reports it, and `close` raises it.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from rollgym.servers.limit import Limit
from webgym.browser.chromium.executable import Browser
from webgym.browser.chromium.process import Chromium, LaunchError
from webgym.browser.chromium.process_tree import ProcessInfo, read_groups
from webgym.browser.chromium.profile import remove_leftovers
from webgym.browser.pool.browser import BrowserEnd, PooledBrowser
from webgym.browser.pool.decisions import (
    BrowserLoad,
    BrowserState,
    EndReason,
    LaunchBackoff,
    choose_browser,
    launches_wanted,
    may_drain,
    renderers_to_end,
    retirement,
    should_end,
)
from webgym.browser.queue import SessionQueue
from webgym.browser.settings import BrowserSettings

SUPERVISE_INTERVAL = 0.25
START_ATTEMPTS = 3
MOST_LAUNCHES = 2
"""Browsers that start at the same time; each keeps a core busy meanwhile."""
LEFTOVERS_TIMEOUT = 10.0
MEMORY_TIMEOUT = 5.0

_LOGGER = logging.getLogger(__name__)


class BrowserSupervisor:
    """Browsers with slots for sessions. After `start`, `close` must be called in every case.

    `on_ended` is called for each browser that ends, before its process is gone.
    """

    def __init__(
        self,
        browser: Browser,
        settings: BrowserSettings,
        on_ended: Callable[[PooledBrowser, BrowserEnd], None],
    ) -> None:
        self._browser = browser
        self._settings = settings
        self._on_ended = on_ended
        self._browsers: dict[int, PooledBrowser] = {}
        self._ending: set[PooledBrowser] = set()
        self._backoff = LaunchBackoff()
        self._launched = 0
        self._queue: SessionQueue[PooledBrowser] = SessionQueue(
            settings.sessions, self._acquire_slot, self.release, self._why_none
        )
        self._changed = asyncio.Event()
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._supervisor: asyncio.Task[None] | None = None
        self._stopped: str | None = None
        self._failure: Exception | None = None

    async def start(self) -> None:
        """Returns when the first browser is up. Raises LaunchError if none can be started."""
        try:
            with Limit(LEFTOVERS_TIMEOUT):
                await asyncio.to_thread(remove_leftovers)
        except OSError as error:  # a TimeoutError is one
            _LOGGER.warning("the files of earlier browsers could not be removed: %r", error)
        self._supervisor = asyncio.ensure_future(self._run())
        await self._started

    async def close(self) -> None:
        """End all browsers and wait until they are gone. Raises the error that broke the pool."""
        self._stop("the browser pool is closed")
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.wait({self._supervisor})
        if self._failure is not None:
            raise self._failure

    async def acquire(self, deadline: float) -> PooledBrowser:
        """A browser with one of its slots reserved; `release` it. Raises NoSessionError."""
        self._changed.set()
        return await self._queue.wait("", deadline)

    def release(self, browser: PooledBrowser) -> None:
        """Release a slot of this browser."""
        browser.slots -= 1
        self._queue.serve()
        self._changed.set()

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch_memory())
                await self._supervise(group)
        except Exception as error:
            _LOGGER.exception("the browser pool broke")
            self._failure = error
            self._stop(f"the browser pool broke: {error!r}")
        finally:
            await self._end_all()

    def _stop(self, why: str) -> None:
        self._stopped = self._stopped or why
        self._queue.close(why)
        if not self._started.done():
            self._started.set_exception(LaunchError(why))
            self._started.exception()  # `start` may not be waiting for it

    async def _end_all(self) -> None:
        why = BrowserEnd(EndReason.CLOSED, self._stopped or "the browser pool is closed")
        for browser in list(self._browsers.values()):
            self._end(browser, why)
        await asyncio.gather(*(browser.chromium.close() for browser in self._ending))

    async def _supervise(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._retire()
            self._launch(group)
            self._queue.serve()
            self._changed.clear()
            with suppress(TimeoutError), Limit(SUPERVISE_INTERVAL):
                await self._changed.wait()

    def _retire(self) -> None:
        now = asyncio.get_running_loop().time()
        for browser in self._browsers.values():
            load = browser.load(now)
            self._backoff.proved(load.age, now)
            reason = retirement(load, self._settings)
            if reason is not None and browser.state is BrowserState.SERVING:
                browser.retire(reason)
        replaceable = may_drain(self._loads(), self._settings)
        for browser in self._browsers.values():
            if replaceable and browser.state is BrowserState.RETIRING:
                browser.drain(now)
            if browser.reason is not None and should_end(browser.load(now), self._settings):
                detail = f"browser {browser.chromium.pid} was recycled ({browser.reason})"
                browser.end(BrowserEnd(browser.reason, detail))

    def _launch(self, group: asyncio.TaskGroup) -> None:
        backoff = self._backoff
        if backoff.pause(asyncio.get_running_loop().time()) > 0:
            return
        wanted = launches_wanted(self._loads(), backoff.running, len(self._queue), self._settings)
        at_once = 1 if backoff.failures else MOST_LAUNCHES
        for _ in range(min(wanted, at_once - backoff.running)):
            backoff.running += 1
            group.create_task(self._start_browser(group))

    async def _start_browser(self, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        try:
            deadline = loop.time() + self._settings.launch_timeout
            chromium = await Chromium.launch(self._browser, deadline)
        except (LaunchError, OSError) as error:
            self._backoff.failed(str(error), loop.time())
            _LOGGER.warning("%s", error)
            if self._backoff.failures >= START_ATTEMPTS and not self._started.done():
                self._started.set_exception(LaunchError(str(error)))
        else:
            self._launched += 1
            browser = PooledBrowser(self._launched, chromium)
            self._browsers[browser.number] = browser
            group.create_task(self._watch(browser))
            _LOGGER.info("browser %d started", chromium.pid)
            if not self._started.done():
                self._started.set_result(None)
        finally:
            self._backoff.running -= 1
            self._changed.set()

    async def _watch(self, browser: PooledBrowser) -> None:
        end = await browser.watch(self._settings)
        self._end(browser, end)
        await browser.chromium.close()
        self._ending.discard(browser)

    def _end(self, browser: PooledBrowser, end: BrowserEnd) -> None:
        """Kill a browser and report it; its processes are still to be reaped."""
        if self._browsers.pop(browser.number, None) is None:
            return
        now = asyncio.get_running_loop().time()
        self._ending.add(browser)
        browser.chromium.kill()
        browser.chromium.connection.close()
        browser.end(end)
        if end.reason in {EndReason.CRASHED, EndReason.HUNG}:
            self._backoff.died(now - browser.joined_at, end.detail, now)
        self._on_ended(browser, end)
        self._changed.set()

    async def _watch_memory(self) -> None:
        while True:
            await asyncio.sleep(self._settings.memory_interval)
            groups = {browser.chromium.group: browser for browser in self._browsers.values()}
            try:
                with Limit(MEMORY_TIMEOUT):
                    found = await asyncio.to_thread(read_groups, frozenset(groups))
            except OSError as error:  # a TimeoutError is one
                _LOGGER.warning("the memory of the browsers could not be read: %r", error)
                continue
            for group, processes in found.items():
                self._check_memory(groups[group], processes)
            self._changed.set()

    def _check_memory(self, browser: PooledBrowser, processes: list[ProcessInfo]) -> None:
        browser.memory = sum(process.memory for process in processes)
        browser.pages_ended &= {process.pid for process in processes}
        for process, why in renderers_to_end(processes, self._settings):
            if process.pid not in browser.pages_ended:
                self._end_renderer(browser, process, why)
        if not browser.chromium.is_whole(processes):
            detail = f"browser {browser.chromium.pid} lost its zygote and can start no page process"
            browser.end(BrowserEnd(EndReason.CRASHED, detail))

    def _end_renderer(self, browser: PooledBrowser, process: ProcessInfo, why: str) -> None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
            browser.pages_ended.add(process.pid)
            _LOGGER.warning("page process %d was killed: %s", process.pid, why)

    def _loads(self) -> list[BrowserLoad]:
        now = asyncio.get_running_loop().time()
        return [browser.load(now) for browser in self._browsers.values() if browser.is_up]

    def _acquire_slot(self) -> PooledBrowser | None:
        number = None if self._stopped else choose_browser(self._loads(), self._settings)
        if number is None:
            return None
        browser = self._browsers[number]
        browser.acquire_slot()
        return browser

    def _why_none(self) -> str:
        if sum(load.sessions for load in self._loads()) >= self._settings.sessions:
            return f"all {self._settings.sessions} sessions are in use"
        if self._backoff.last_failure is not None:
            return f"no browser is up: {self._backoff.last_failure}"
        return "no browser is ready"
