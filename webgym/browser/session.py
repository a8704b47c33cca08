"""One session: a browser context of its own, and what can be done in it.

One request at a time works on a session, the others wait in order. A request is raced against the
loss of the session, so that nobody waits for a browser that is gone.

A page may crash, or keep its own scripts busy for ever. Neither ends the session: the page is
stopped, or its tab replaced by an empty one, and the request that met it says so.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from rollgym.servers.limit import Limit
from webgym.browser.chromium.connection import CallError, ConnectionClosedError
from webgym.browser.chromium.targets import Targets
from webgym.browser.contract.answers import (
    ImageFormat,
    Incident,
    Observe,
    Picture,
    Problem,
    StepAnswer,
)
from webgym.browser.contract.commands import Command, InteractionMode
from webgym.browser.contract.errors import (
    CommandError,
    NavigationError,
    NavigationRefusedError,
    PageCrashedError,
    PageUnresponsiveError,
    SessionLostError,
    StepDeadlineError,
)
from webgym.browser.guard.missed import Missed
from webgym.browser.page.errors import DocumentGoneError
from webgym.browser.page.observer import Observer, Seen
from webgym.browser.page.performer import Performer
from webgym.browser.page.rescue import RESCUE_TIME, Rescue
from webgym.browser.page.settle import settle
from webgym.browser.page.tabs import Tabs

MAX_INCIDENTS = 50
CLOSED_WITHIN = 5.0
LOOK_TIME = 4.0
"""Kept back from a deadline for looking at the page."""
SETTLE_LIMIT = 20.0
FAIR_LOOK = 1.5
"""An empty page that could not be seen within less may have been slow."""
MARGIN = 0.1
"""By which a last look ends before its request does."""

T = TypeVar("T")


class Channel(Protocol):
    """A session's way to the network."""

    @property
    def proxy_server(self) -> str: ...

    def check_navigation(self, url: str) -> str: ...

    def begin_step(self) -> None: ...

    def take_refusals(self) -> Sequence[Missed]: ...

    def take_failures(self) -> Sequence[Missed]: ...

    async def close(self) -> None: ...


class BrowserSession:
    """Made by `open`; `lost` is done, with the reason, as soon as nothing more can be done."""

    def __init__(self, targets: Targets, channel: Channel) -> None:
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._targets = targets
        self._channel = channel
        self._incidents: deque[Incident] = deque(maxlen=MAX_INCIDENTS)
        self._tabs = Tabs(targets, self._incidents.append)
        self._rescue = Rescue(self._tabs, self.lose)
        self._observer = Observer(self._tabs)
        self._performer = Performer(self._tabs, self._observer, channel.check_navigation)
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, targets: Targets, channel: Channel, deadline: float) -> "BrowserSession":
        """A new session on an empty page.

        Raises what `Connection.call` raises, and SessionLostError where its page dies before it
        was there; the channel is closed then.
        """
        session = cls(targets, channel)
        try:
            await session._tabs.open_context(channel.proxy_server, deadline)
        except BaseException as error:
            with suppress(TimeoutError):
                await session.close()
            if isinstance(error, PageCrashedError | DocumentGoneError):
                raise SessionLostError(f"its first page died: {error}") from error
            raise
        return session

    def lose(self, reason: str) -> None:
        """Nothing more can be done: requests in flight and to come raise SessionLostError."""
        if not self.lost.done():
            self.lost.set_result(reason)

    async def close(self) -> None:
        """Give everything back. Safe to call again, and bounded.

        Raises TimeoutError where the browser does not say that everything is gone.
        """
        self.lose("the session was closed")
        deadline = asyncio.get_running_loop().time() + CLOSED_WITHIN
        try:
            with suppress(ConnectionClosedError):
                await self._tabs.close_context(deadline)
        finally:
            await self._channel.close()

    async def execute(self, command: Command, deadline: float) -> dict[str, object]:
        """Carry out one command and, if it acts, wait for the page to rest."""
        return await self._in_turn(lambda: self._execute(command, deadline), deadline)

    async def step(self, command: Command | None, observe: Observe, deadline: float) -> StepAnswer:
        """Carry out a command, settle, and look: one round trip. A failed command is in it."""
        return await self._in_turn(lambda: self._step(command, observe, deadline), deadline)

    async def screenshot(
        self, mode: InteractionMode, image_format: ImageFormat, quality: int, deadline: float
    ) -> Picture:
        observe = Observe(mode, image_format, quality)
        answer = await self.step(None, observe, deadline)
        if answer.screenshot is None:
            raise StepDeadlineError("no screenshot before the deadline")
        return answer.screenshot

    async def _execute(self, command: Command, deadline: float) -> dict[str, object]:
        rescue, _ = _plan(deadline)
        self._rescue.begin()
        result = await self._rescue.rescued(lambda: self._perform(command, rescue), deadline)
        if command.acts:
            await self._rescue.rescued(lambda: self._settle(rescue), deadline)
        return result

    async def _step(self, command: Command | None, observe: Observe, deadline: float) -> StepAnswer:
        clock = _Clock()
        rescue, acted = _plan(deadline)
        self._rescue.begin()
        result: dict[str, object] = {}
        problem: Problem | None = None
        settled = True
        try:
            if command is not None:
                result = await self._rescue.rescued(lambda: self._perform(command, acted), deadline)
        except CommandError as error:
            problem = Problem(error.type, str(error))
        clock.lap("command")
        try:
            if command is None or command.acts:
                settled = await self._rescue.rescued(lambda: self._settle(acted), deadline)
            clock.lap("settle")
            seen = await self._rescue.rescued(
                lambda: self._observer.look(observe, rescue), deadline
            )
        except CommandError as error:
            if isinstance(error, PageCrashedError | PageUnresponsiveError):
                problem = problem or Problem(error.type, str(error))
            settled = False
            seen = await self._look_again(observe, deadline)
        clock.lap("observe")
        if seen.picture is not None:
            self._targets.unseen = 0
        return StepAnswer(
            page=seen.page,
            result=result,
            error=problem,
            screenshot=seen.picture,
            elements=seen.elements if observe.wants_elements else None,
            tree=seen.tree,
            incidents=self._take_incidents(),
            settled=settled,
            timings=clock.laps,
        )

    async def _perform(self, command: Command, deadline: float) -> dict[str, object]:
        self._note_refusals()
        self._channel.take_failures()
        self._channel.begin_step()
        try:
            return await self._performer.perform(command, deadline)
        except NavigationError as error:
            refusals = self._note_refusals()
            if refusals:
                raise NavigationRefusedError(f"{error} ({refusals[0]})") from error
            failures = _texts(self._channel.take_failures())
            raise NavigationError(
                f"{error} ({failures[-1]})" if failures else str(error)
            ) from error

    async def _settle(self, deadline: float) -> bool:
        """Raises TimeoutError for a page that is stuck, also if it stands behind what it opened."""
        soon = min(deadline, asyncio.get_running_loop().time() + SETTLE_LIMIT)
        settled = await settle(lambda: self._tabs.current, soon)
        await self._rescue.check_the_page_left()
        return settled

    async def _look_again(self, observe: Observe, deadline: float) -> Seen:
        """Look at what is left after a rescue; a page that is in the way again is given up."""
        now = asyncio.get_running_loop().time()
        try:
            return await self._observer.look(observe, (now + deadline) / 2)
        except (TimeoutError, PageCrashedError, DocumentGoneError, CallError):
            await self._rescue.give_up(*self._tabs.crashed, self._tabs.current)
            return await self._look_at_nothing(observe, deadline)

    async def _look_at_nothing(self, observe: Observe, deadline: float) -> Seen:
        """Look at an empty page. Where even that cannot be seen it is the browser that is stuck."""
        now = asyncio.get_running_loop().time()
        try:
            return await self._observer.look(observe, deadline - MARGIN)
        except TimeoutError:
            if observe.screenshot is not None and deadline - now >= FAIR_LOOK:
                self._targets.unseen += 1
            raise

    async def _in_turn(self, work: Callable[[], Coroutine[None, None, T]], deadline: float) -> T:
        """Do the work alone, and only as long as there is a session."""
        doing = asyncio.ensure_future(self._alone(work, deadline))
        first: set[asyncio.Future[Any]] = {doing, self.lost}
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not doing.done():
                doing.cancel()
                await asyncio.wait({doing})
            if not doing.cancelled():
                doing.exception()  # whoever is cancelled here does not ask for it
        if self.lost.done() and (doing.cancelled() or doing.exception() is not None):
            raise SessionLostError(self.lost.result())
        return doing.result()

    async def _alone(self, work: Callable[[], Coroutine[None, None, T]], deadline: float) -> T:
        try:
            with Limit(max(0.0, deadline - asyncio.get_running_loop().time())):
                async with self._turn:
                    if self.lost.done():
                        raise SessionLostError(self.lost.result())
                    return await work()
        except TimeoutError as error:
            raise StepDeadlineError("the request was not done by its deadline") from error
        except ConnectionClosedError as error:
            raise SessionLostError("its browser is gone") from error

    def _note_refusals(self) -> list[str]:
        refusals = [
            f"{refusal.host}: {refusal.reason}" for refusal in self._channel.take_refusals()
        ]
        self._incidents.extend(Incident("refused", text) for text in refusals)
        return refusals

    def _take_incidents(self) -> tuple[Incident, ...]:
        self._note_refusals()
        incidents = tuple(self._incidents)
        self._incidents.clear()
        return incidents


def _texts(missed: Sequence[Missed]) -> list[str]:
    return [f"{each.host}: {each.reason}" for each in missed]


def _plan(deadline: float) -> tuple[float, float]:
    """By when a page must have answered, and by when it must have been acted on.

    A deadline too short for a rescue is the client's own affair: the page is left alone.
    """
    now = asyncio.get_running_loop().time()
    rescue = deadline - RESCUE_TIME if deadline - now >= 2 * RESCUE_TIME else deadline
    return rescue, rescue - min(LOOK_TIME, (rescue - now) / 3)


class _Clock:
    """How long the phases of a step take."""

    def __init__(self) -> None:
        self._now = asyncio.get_running_loop().time
        self._since = self._now()
        self.laps: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        now = self._now()
        self.laps[phase] = round(now - self._since, 4)
        self._since = now
