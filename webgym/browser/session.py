"""One session: a separate browser context, and the commands in it.

A session handles one request at a time; the others wait in order. A request ends as soon as the
session is lost, so that it does not wait for a browser that has ended.

A page may crash, or keep its scripts busy for ever. Neither ends the session: the page is stopped,
or its tab is replaced by an empty one, and the request reports it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from rollgym.servers.limit import Limit
from webgym.browser.chromium.connection import CallError, ConnectionClosedError
from webgym.browser.chromium.targets import Targets
from webgym.browser.contract.answers import CommandFailure, Incident, Observe, Picture, StepAnswer
from webgym.browser.contract.commands import Command
from webgym.browser.contract.errors import (
    BadRequestError,
    CommandError,
    NavigationError,
    NavigationRefusedError,
    PageCrashedError,
    PageUnresponsiveError,
    SessionLostError,
    StepDeadlineError,
)
from webgym.browser.contract.profile import (
    DEFAULT_PROFILE,
    RecordingKind,
    SessionProfile,
    StorageState,
    ViewportSettings,
)
from webgym.browser.guard.guard import FailedTargetLog, SessionChannel
from webgym.browser.page.elements import DocumentGoneError
from webgym.browser.page.executor import CommandExecutor
from webgym.browser.page.files import Uploads
from webgym.browser.page.observation import PageObservation, PageObserver
from webgym.browser.page.recording import HarRecorder, VideoRecorder
from webgym.browser.page.settle import settle
from webgym.browser.page.storage import load_storage, save_storage
from webgym.browser.page.tabs import RECOVERY_TIME, PageRecovery, SessionTabs

MAX_INCIDENTS = 50
CLOSE_SECONDS = 5.0
OBSERVE_TIME = 4.0
"""The part of a deadline that is reserved for observing the page."""
SETTLE_LIMIT = 20.0
FAIR_OBSERVE_TIME = 1.5
"""An empty page that could not be observed within a shorter time was probably just slow."""
MARGIN = 0.1
"""How long before its request the last observation ends."""

T = TypeVar("T")


class ChromiumSession:
    """A session, made by `open`. `lost` is done, with the reason, as soon as it has ended."""

    def __init__(
        self, targets: Targets, channel: SessionChannel, profile: SessionProfile = DEFAULT_PROFILE
    ) -> None:
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._targets = targets
        self._channel = channel
        self._incidents: deque[Incident] = deque(maxlen=MAX_INCIDENTS)
        self._tabs = SessionTabs(targets, self._incidents.append, profile)
        self._recovery = PageRecovery(self._tabs, self.lose)
        self._observer = PageObserver(self._tabs)
        self._uploads = Uploads()
        self._executor = CommandExecutor(
            self._tabs, self._observer, self._uploads, channel.check_navigation
        )
        self._turn = asyncio.Lock()
        self._har = HarRecorder() if profile.record_har else None
        self._video: VideoRecorder | None = None
        if self._har is not None:
            self._tabs.listener = self._har.handle_event

    @classmethod
    async def open(
        cls,
        targets: Targets,
        channel: SessionChannel,
        deadline: float,
        profile: SessionProfile = DEFAULT_PROFILE,
    ) -> "ChromiumSession":
        """A new session on an empty page.

        Raises what `DevToolsConnection.call` raises, BadRequestError if the browser does not accept
        the profile, and SessionLostError if its first page dies. The channel is closed in these
        cases.
        """
        session = cls(targets, channel, profile)
        try:
            await session._tabs.open_context(channel.proxy_server, deadline)
            await load_storage(session._tabs, profile.storage_state, deadline)
            await session._tabs.open_blank(deadline)
            if profile.record_video:
                size = profile.viewport
                session._video = VideoRecorder(
                    lambda: session._tabs.current, size.width, size.height
                )
        except BaseException as error:
            with suppress(TimeoutError):
                await session.close()
            if isinstance(error, PageCrashedError | DocumentGoneError):
                raise SessionLostError(f"its first page died: {error}") from error
            raise
        return session

    @property
    def viewport(self) -> ViewportSettings:
        return self._tabs.profile.viewport

    def lose(self, reason: str) -> None:
        """Mark the session as lost: all running and later requests raise SessionLostError."""
        if not self.lost.done():
            self.lost.set_result(reason)

    async def close(self) -> None:
        """Close the context and the channel. Bounded; can be called more than once.

        Raises TimeoutError if the browser does not confirm it.
        """
        self.lose("the session was closed")
        deadline = asyncio.get_running_loop().time() + CLOSE_SECONDS
        try:
            if self._video is not None:
                await self._video.close()
            with suppress(ConnectionClosedError):
                await self._tabs.close_context(deadline)
        finally:
            self._uploads.close()
            await self._channel.close()

    async def execute(self, command: Command, deadline: float) -> dict[str, object]:
        """Carry out one command and, if it may change the page, wait until the page settles."""
        return await self._in_turn(lambda: self._execute(command, deadline), deadline)

    async def step(self, command: Command | None, observe: Observe, deadline: float) -> StepAnswer:
        """Carry out a command, settle and observe. The answer includes a failed command."""
        return await self._in_turn(lambda: self._step(command, observe, deadline), deadline)

    async def screenshot(self, observe: Observe, deadline: float) -> Picture:
        answer = await self.step(None, observe, deadline)
        if answer.screenshot is None:
            raise StepDeadlineError("no screenshot before the deadline")
        return answer.screenshot

    async def recording(self, kind: RecordingKind, deadline: float) -> bytes:
        """The recording so far. Raises BadRequestError if the profile did not ask for it."""
        if kind == "har" and self._har is not None:
            return self._har.har()
        if kind == "video" and self._video is not None:
            video = self._video
            return await self._in_turn(video.video, deadline)
        raise BadRequestError(f"this session is not recorded: its profile needs record_{kind}")

    async def storage_state(self, deadline: float) -> StorageState:
        """Cookies and local storage, to start another session from."""
        return await self._in_turn(lambda: self._save_storage(deadline), deadline)

    async def _save_storage(self, deadline: float) -> StorageState:
        try:
            return await save_storage(self._tabs, deadline)
        except (CallError, DocumentGoneError) as error:
            raise CommandError(f"the storage cannot be read: {error}") from error

    async def _execute(self, command: Command, deadline: float) -> dict[str, object]:
        answer_by, _ = _phase_deadlines(deadline)
        self._recovery.begin()
        result = await self._recovery.run(lambda: self._perform(command, answer_by), deadline)
        if command.acts:
            await self._recovery.run(lambda: self._settle(answer_by), deadline)
        return result

    async def _step(self, command: Command | None, observe: Observe, deadline: float) -> StepAnswer:
        clock = _PhaseTimer()
        answer_by, act_by = _phase_deadlines(deadline)
        self._recovery.begin()
        result: dict[str, object] = {}
        failure: CommandFailure | None = None
        settled = True
        try:
            if command is not None:
                result = await self._recovery.run(lambda: self._perform(command, act_by), deadline)
        except CommandError as error:
            failure = CommandFailure(error.type, str(error))
        clock.lap("command")
        try:
            if command is None or command.acts:
                settled = await self._recovery.run(lambda: self._settle(act_by), deadline)
            clock.lap("settle")
            observation = await self._recovery.run(
                lambda: self._observer.observe(observe, answer_by), deadline
            )
        except CommandError as error:
            if isinstance(error, PageCrashedError | PageUnresponsiveError):
                failure = failure or CommandFailure(error.type, str(error))
            settled = False
            observation = await self._observe_again(observe, deadline)
        clock.lap("observe")
        if observation.picture is not None:
            self._targets.failed_observations = 0
        return StepAnswer(
            page=observation.page,
            result=result,
            error=failure,
            screenshot=observation.picture,
            elements=observation.elements if observe.wants_elements else None,
            tree=observation.tree,
            incidents=self._take_incidents(),
            downloads=await self._tabs.downloads.take(),
            settled=settled,
            timings=clock.laps,
        )

    async def _perform(self, command: Command, deadline: float) -> dict[str, object]:
        self._note_rejections()
        self._channel.failures.take()
        self._channel.traffic.begin_step()
        try:
            return await self._executor.execute(command, deadline)
        except NavigationError as error:
            rejections = self._note_rejections()
            if rejections:
                raise NavigationRefusedError(f"{error} ({rejections[0]})") from error
            failures = _reasons(self._channel.failures)
            reason = f" ({failures[-1]})" if failures else ""
            raise NavigationError(f"{error}{reason}") from error

    async def _settle(self, deadline: float) -> bool:
        """Raises TimeoutError for a stuck page, also if it is behind one that it opened."""
        soon = min(deadline, asyncio.get_running_loop().time() + SETTLE_LIMIT)
        settled = await settle(lambda: self._tabs.current, soon)
        await self._recovery.check_request_tab()
        if self._tabs.discard_empty():
            settled = await settle(lambda: self._tabs.current, soon) and settled
        await self._tabs.downloads.wait(deadline)
        return settled

    async def _observe_again(self, observe: Observe, deadline: float) -> PageObservation:
        """Observe after a recovery; a page that fails again is closed."""
        now = asyncio.get_running_loop().time()
        try:
            return await self._observer.observe(observe, (now + deadline) / 2)
        except (TimeoutError, PageCrashedError, DocumentGoneError, CallError):
            await self._recovery.close(*self._tabs.crashed, self._tabs.current)
            return await self._observe_empty_page(observe, deadline)

    async def _observe_empty_page(self, observe: Observe, deadline: float) -> PageObservation:
        """Observe an empty page. If even that fails, the browser is stuck."""
        now = asyncio.get_running_loop().time()
        try:
            return await self._observer.observe(observe, deadline - MARGIN)
        except TimeoutError:
            if observe.screenshot is not None and deadline - now >= FAIR_OBSERVE_TIME:
                self._targets.failed_observations += 1
            raise

    async def _in_turn(self, work: Callable[[], Coroutine[None, None, T]], deadline: float) -> T:
        """Do the work when it is its turn, and stop when the session is lost."""
        working = asyncio.ensure_future(self._alone(work, deadline))
        first: set[asyncio.Future[Any]] = {working, self.lost}
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
            if not working.cancelled():
                working.exception()  # read it, in case the caller was cancelled
        if self.lost.done() and (working.cancelled() or working.exception() is not None):
            raise SessionLostError(self.lost.result())
        return working.result()

    async def _alone(self, work: Callable[[], Coroutine[None, None, T]], deadline: float) -> T:
        try:
            with Limit(max(0.0, deadline - asyncio.get_running_loop().time())):
                async with self._turn:
                    if self.lost.done():
                        raise SessionLostError(self.lost.result())
                    return await work()
        except TimeoutError as error:
            raise StepDeadlineError("the request was not finished by its deadline") from error
        except ConnectionClosedError as error:
            raise SessionLostError("its browser has ended") from error

    def _note_rejections(self) -> list[str]:
        rejections = _reasons(self._channel.rejections)
        self._incidents.extend(Incident("refused", text) for text in rejections)
        return rejections

    def _take_incidents(self) -> tuple[Incident, ...]:
        self._note_rejections()
        self._tabs.report_new()
        incidents = tuple(self._incidents)
        self._incidents.clear()
        return incidents


def _reasons(failed: FailedTargetLog) -> list[str]:
    return [f"{target.host}: {target.reason}" for target in failed.take()]


def _phase_deadlines(deadline: float) -> tuple[float, float]:
    """By when a page must have answered, and by when the command must be done.

    With a deadline that is too short for a recovery, the page is left alone.
    """
    now = asyncio.get_running_loop().time()
    answer_by = deadline - RECOVERY_TIME if deadline - now >= 2 * RECOVERY_TIME else deadline
    return answer_by, answer_by - min(OBSERVE_TIME, (answer_by - now) / 3)


class _PhaseTimer:
    """Measures the phases of a step."""

    def __init__(self) -> None:
        self._now = asyncio.get_running_loop().time
        self._since = self._now()
        self.laps: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        now = self._now()
        self.laps[phase] = round(now - self._since, 4)
        self._since = now
