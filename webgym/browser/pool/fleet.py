"""The browsers of a pool: as many as are wanted, each of them well.

One task supervises. It compares what there is with what is wanted (`decisions`), whenever something
changed and a few times a second: it starts browsers, retires them, lets them drain and ends them. A
task for each browser watches its health, one more looks at the memory of all.

*An unforeseen error* in there is a bug. It is logged, all browsers are ended, every later call says
why, and `close` raises it.
"""

import asyncio
import logging
import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from rollgym.servers.limit import Limit
from webgym.browser.chromium.executable import Browser
from webgym.browser.chromium.process import Chromium, LaunchError
from webgym.browser.chromium.process_tree import ProcessInfo, processes_by_group
from webgym.browser.chromium.profile import remove_leftovers
from webgym.browser.contract.errors import NoSessionError
from webgym.browser.pool.decisions import (
    Condition,
    Load,
    Reason,
    is_over,
    launches_wanted,
    may_drain,
    placed_on,
    renderers_to_end,
    retirement,
)
from webgym.browser.pool.info import PoolEvent, PoolInfo
from webgym.browser.pool.launches import Launches
from webgym.browser.pool.member import Ending, Member
from webgym.browser.pool.settings import PoolSettings
from webgym.browser.pool.waiting import Waiting

LOOK_INTERVAL = 0.25
START_ATTEMPTS = 3
MOST_LAUNCHES = 2
"""Browsers that start at the same time; each keeps a core busy while it does."""
LEFTOVERS_TIMEOUT = 10.0
MEMORY_TIMEOUT = 5.0

_LOGGER = logging.getLogger(__name__)


class Fleet:
    """Browsers with places for sessions. `start` it, and `close` it whatever becomes of it.

    `on_ended` hears of each browser that ends, before it is gone; `on_event` of everything.
    """

    def __init__(
        self,
        browser: Browser,
        settings: PoolSettings,
        on_ended: Callable[[Member, Ending], None],
        on_event: Callable[[PoolEvent], None],
    ) -> None:
        self._browser = browser
        self._settings = settings
        self._on_ended = on_ended
        self._on_event = on_event
        self._members: dict[int, Member] = {}
        self._ending: set[Member] = set()
        self._launches = Launches()
        self._launched = 0
        self._waiting: Waiting[Member] = Waiting(settings.capacity, self.release)
        self._replaced: Counter[str] = Counter()
        self._renderers_ended = 0
        self._changed = asyncio.Event()
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._supervisor: asyncio.Task[None] | None = None
        self._stopped: str | None = None
        self._failure: Exception | None = None

    async def start(self) -> None:
        """Returns when the first browser is up. Raises LaunchError where none can be started."""
        try:
            with Limit(LEFTOVERS_TIMEOUT):
                await asyncio.to_thread(remove_leftovers)
        except OSError as error:  # a TimeoutError is one
            _LOGGER.warning("what earlier browsers left behind could not be removed: %r", error)
        self._supervisor = asyncio.ensure_future(self._run())
        await self._started

    async def close(self) -> None:
        """End all browsers, and wait until they are gone. Raises the error that broke the fleet."""
        self._stop("the browser pool is closed")
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.wait({self._supervisor})
        if self._failure is not None:
            raise self._failure

    async def place(self, deadline: float) -> Member:
        """A place for one session on a browser; `release` it. Raises NoSessionError."""
        if self._stopped is not None:
            raise NoSessionError(self._stopped)
        member = None if self._waiting else self._next_place()
        self._changed.set()
        if member is not None:
            return member
        if self._waiting.full:
            raise NoSessionError(f"{len(self._waiting)} callers wait for a session already")
        try:
            return await self._waiting.wait(deadline)
        except TimeoutError:
            raise NoSessionError(self._why_none()) from None

    def release(self, member: Member) -> None:
        """Give a place back."""
        member.places -= 1
        self._serve()
        self._changed.set()

    def info(self) -> PoolInfo:
        now = asyncio.get_running_loop().time()
        return PoolInfo(
            capacity=self._settings.capacity,
            sessions=sum(member.places for member in self._members.values()),
            waiting=len(self._waiting),
            browsers=tuple(member.info(now) for member in self._members.values()),
            replaced=dict(self._replaced),
            renderers_ended=self._renderers_ended,
            launch_failure=self._launches.last_failure,
            failure=None if self._failure is None else repr(self._failure),
        )

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
        self._waiting.fail(lambda: NoSessionError(why))
        if not self._started.done():
            self._started.set_exception(LaunchError(why))
            self._started.exception()  # who starts the pool hears of it, but nobody has to

    async def _end_all(self) -> None:
        why = Ending(Reason.CLOSED, self._stopped or "the browser pool is closed")
        for member in list(self._members.values()):
            self._end(member, why)
        await asyncio.gather(*(member.chromium.close() for member in self._ending))

    async def _supervise(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._retire()
            self._launch(group)
            self._serve()
            self._changed.clear()
            with suppress(TimeoutError), Limit(LOOK_INTERVAL):
                await self._changed.wait()

    def _retire(self) -> None:
        now = asyncio.get_running_loop().time()
        for member in self._members.values():
            load = member.load(now)
            self._launches.proved(load.age, now)
            reason = retirement(load, self._settings)
            if reason is not None and member.condition is Condition.SERVING:
                member.retire(reason)
        replaceable = may_drain(self._loads(), self._settings)
        for member in self._members.values():
            if replaceable and member.condition is Condition.RETIRING:
                member.drain(now)
            if member.reason is not None and is_over(member.load(now), self._settings):
                detail = f"browser {member.chromium.pid} was recycled ({member.reason})"
                member.end(Ending(member.reason, detail))

    def _launch(self, group: asyncio.TaskGroup) -> None:
        launches = self._launches
        if launches.pause(asyncio.get_running_loop().time()) > 0:
            return
        wanted = launches_wanted(
            self._loads(), launches.running, len(self._waiting), self._settings
        )
        at_once = 1 if launches.failures else MOST_LAUNCHES
        for _ in range(min(wanted, at_once - launches.running)):
            launches.running += 1
            group.create_task(self._start_browser(group))

    async def _start_browser(self, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        try:
            deadline = loop.time() + self._settings.launch_patience
            chromium = await Chromium.launch(self._browser, deadline)
        except (LaunchError, OSError) as error:
            self._launches.failed(str(error), loop.time())
            self._on_event(PoolEvent("not_started", str(error)))
            if self._launches.failures >= START_ATTEMPTS and not self._started.done():
                self._started.set_exception(LaunchError(str(error)))
        else:
            self._launched += 1
            member = Member(self._launched, chromium)
            self._members[member.number] = member
            group.create_task(self._keep(member))
            self._on_event(PoolEvent("started", f"browser {chromium.pid} started", chromium.pid))
            if not self._started.done():
                self._started.set_result(None)
        finally:
            self._launches.running -= 1
            self._changed.set()

    async def _keep(self, member: Member) -> None:
        ending = await member.watch(self._settings)
        self._end(member, ending)
        await member.chromium.close()
        self._ending.discard(member)

    def _end(self, member: Member, ending: Ending) -> None:
        """Kill a browser and tell of it; its processes are still to be reaped."""
        if self._members.pop(member.number, None) is None:
            return
        now = asyncio.get_running_loop().time()
        self._ending.add(member)
        member.chromium.kill()
        member.chromium.connection.close()
        member.end(ending)
        if ending.reason in {Reason.CRASHED, Reason.HUNG}:
            self._launches.died(now - member.joined_at, ending.detail, now)
        if ending.reason is not Reason.CLOSED:
            self._replaced[ending.reason.value] += 1
        self._on_ended(member, ending)
        self._changed.set()

    async def _watch_memory(self) -> None:
        loop, settings = asyncio.get_running_loop(), self._settings
        while True:
            await asyncio.sleep(settings.memory_interval)
            groups = {member.chromium.group: member for member in self._members.values()}
            try:
                found = await processes_by_group(groups, loop.time() + MEMORY_TIMEOUT)
            except OSError as error:  # a TimeoutError is one
                _LOGGER.warning("the memory of the browsers could not be read: %r", error)
                continue
            for group, processes in found.items():
                self._look_at(groups[group], processes)
            self._changed.set()

    def _look_at(self, member: Member, processes: list[ProcessInfo]) -> None:
        member.memory = sum(process.memory for process in processes)
        member.pages_ended &= {process.pid for process in processes}
        for process, why in renderers_to_end(processes, self._settings):
            if process.pid not in member.pages_ended:
                self._end_renderer(member, process, why)
        if not member.chromium.is_whole(processes):
            detail = f"browser {member.chromium.pid} lost the process that it forks others from"
            member.end(Ending(Reason.CRASHED, detail))

    def _end_renderer(self, member: Member, process: ProcessInfo, why: str) -> None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
            member.pages_ended.add(process.pid)
            self._renderers_ended += 1
            detail = f"the process {process.pid} of a page was ended: {why}"
            self._on_event(PoolEvent("renderer_ended", detail, process.pid))

    def _loads(self) -> list[Load]:
        now = asyncio.get_running_loop().time()
        return [member.load(now) for member in self._members.values() if member.is_up]

    def _next_place(self) -> Member | None:
        number = placed_on(self._loads(), self._settings)
        if number is None:
            return None
        member = self._members[number]
        member.take_place()
        return member

    def _serve(self) -> None:
        if self._stopped is None:
            self._waiting.serve(self._next_place)

    def _why_none(self) -> str:
        if sum(load.sessions for load in self._loads()) >= self._settings.capacity:
            return f"all {self._settings.capacity} sessions are taken"
        if self._launches.last_failure is not None:
            return f"no browser is up: {self._launches.last_failure}"
        return "no browser was ready in time"
