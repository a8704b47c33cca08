"""A pool without browsers, which keeps to its contract and can be told to break.

Its sessions do what the address says that they are sent to: `hang:` waits until the deadline,
`stuck:` beyond it, `crash:` breaks the page, `bug:` breaks the session's own code.
"""

import asyncio
from itertools import count

from webgym.browser.contract.answers import (
    Box,
    CommandFailure,
    Element,
    Observe,
    PageInfo,
    Picture,
    StepAnswer,
)
from webgym.browser.contract.commands import (
    Command,
    GetWebpageText,
    Sleep,
    VisitPage,
)
from webgym.browser.contract.errors import (
    CommandError,
    NoSessionError,
    PageCrashedError,
    SessionLostError,
    StepDeadlineError,
)
from webgym.browser.contract.profile import DEFAULT_PROFILE, SessionProfile

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
_NUMBERS = count(1)


class FakeSession:
    """One session: where it was, whether it was closed, and what it is doing."""

    def __init__(self, profile: SessionProfile = DEFAULT_PROFILE) -> None:
        self.profile = profile
        self.viewport = profile.viewport
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.number = next(_NUMBERS)
        self.visited: list[str] = []
        self.closed = 0
        self.busy = asyncio.Event()
        self.cancelled = 0
        self._one_at_a_time = asyncio.Lock()

    def lose(self, reason: str) -> None:
        if not self.lost.done():
            self.lost.set_result(reason)

    async def execute(self, command: Command, deadline: float) -> dict[str, object]:
        async with self._one_at_a_time:
            self.busy.set()
            try:
                return await self._execute(command, deadline)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            finally:
                self.busy.clear()

    async def _execute(self, command: Command, deadline: float) -> dict[str, object]:
        match command:
            case VisitPage(url):
                self.visited.append(url)
                await self._visit(url, deadline)
            case Sleep(duration):
                await asyncio.sleep(duration)
            case GetWebpageText():
                return {"text": " ".join(self.visited)}
        return {"status": "success"}

    async def _visit(self, url: str, deadline: float) -> None:
        match url.partition(":")[0]:
            case "hang":
                await asyncio.sleep(deadline - asyncio.get_running_loop().time())
                raise StepDeadlineError("the page did not come in time")
            case "stuck":
                await asyncio.sleep(1000)
            case "crash":
                raise PageCrashedError("the page crashed")
            case "gone":
                raise SessionLostError("its browser died")
            case "bug":
                raise KeyError(url)

    async def step(self, command: Command | None, observe: Observe, deadline: float) -> StepAnswer:
        result: dict[str, object] = {}
        problem = None
        try:
            if command is not None:
                result = await self.execute(command, deadline)
        except CommandError as error:
            problem = CommandFailure(error.type, str(error))
        element = Element(1, "a", "link", "Home", "Home", Box(1, 2, 3, 4))
        return StepAnswer(
            PageInfo(self.visited[-1] if self.visited else "about:blank", "Page"),
            result,
            problem,
            Picture(f"image/{observe.screenshot}", PICTURE) if observe.screenshot else None,
            (element,) if observe.wants_elements else None,
        )

    async def screenshot(self, observe: Observe, deadline: float) -> Picture:
        mode, quality = observe.interaction_mode, observe.quality
        async with self._one_at_a_time:
            return Picture(f"image/{observe.screenshot}", PICTURE + f"{mode} {quality}".encode())


class FakePool:
    """Counts what it opened and closed, and fails the test that has it do either wrongly."""

    def __init__(self, capacity: int = 4) -> None:
        self.capacity = capacity
        self.sessions: list[FakeSession] = []
        self.open: set[FakeSession] = set()
        self.most_open = 0
        self.trouble: Exception | None = None
        self.closing_trouble: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.closing_gate = asyncio.Event()
        self.closing_gate.set()
        self.opening = 0

    async def open_session(
        self, deadline: float, profile: SessionProfile = DEFAULT_PROFILE
    ) -> FakeSession:
        self.opening += 1
        try:
            async with asyncio.timeout_at(deadline):
                await self.gate.wait()
        except TimeoutError as error:
            raise NoSessionError("the browser did not open a session in time") from error
        finally:
            self.opening -= 1
        await asyncio.sleep(0)
        if self.trouble is not None:
            raise self.trouble
        session = FakeSession(profile)
        self.sessions.append(session)
        self.open.add(session)
        self.most_open = max(self.most_open, len(self.open))
        return session

    async def close_session(self, session: FakeSession) -> None:
        session.closed += 1
        await self.closing_gate.wait()
        await asyncio.sleep(0)
        self.open.discard(session)
        if self.closing_trouble is not None:
            raise self.closing_trouble

    def kill(self, reason: str = "its browser died") -> None:
        """Lose every session, as when the browser dies."""
        for session in self.open:
            session.lose(reason)

    def check(self) -> None:
        """Nothing is left, nothing was closed twice, and nothing was opened without room."""
        assert not self.open
        assert all(session.closed == 1 for session in self.sessions)
        assert self.most_open <= self.capacity
