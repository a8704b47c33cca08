"""The evaluator: it scores episodes, and tells whether the site blocked the agent.

*Who scores.* A task that names a `verifier` is scored by its own check: its server's
(`webgym.models.task_checks`), or a function of the user (`webgym.models.verifiers`). All other
tasks need a judge, a vision model that `openai_config` describes (`webgym.models.assessment`). A
verdict comes from one of these or not at all: if none can score an episode, VerifierError is
raised, and there is no reward.

*Limits.* `evaluation_workers` episodes are scored at a time, and as many single screenshots are
checked; further ones wait for a slot. All of it ends at the caller's deadline, and after `timeout`
seconds at the latest.

*Two ways to call it.* The asynchronous methods are for programs that run many episodes; connections
belong to an event loop, so each loop has its own. `get_verifiable_reward` and `check_if_blocked`
wait for the result, on an event loop in a separate thread, so they also work in a notebook.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from rollgym.closing import AsyncClosable
from rollgym.records import Row, RowError, VerifierError
from rollgym.servers.context import seconds_left, working_for
from rollgym.servers.limit import Limit
from webgym.browser.contract.answers import Picture
from webgym.models.assessment import Assessor
from webgym.models.judge import JudgeModels
from webgym.models.judge_questions import ScreenshotStore
from webgym.models.judge_settings import JudgeSettings
from webgym.models.task_checks import TaskCheckClient, start_url
from webgym.models.verifiers import verify
from webgym.tasks.task import WebTask
from webgym.trajectory.plain import from_plain
from webgym.trajectory.records import EpisodeVerdict, Trajectory

START_TIMEOUT = 10.0
STOP_TIMEOUT = 10.0
EVALUATION_TIMEOUT = 600.0
GRACE_SECONDS = 1.0
"""Extra seconds before a missed deadline is enforced from outside."""

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread, for callers that wait, such as notebooks.

    The thread starts with the first call and ends with `close`; a later call starts another. It
    also works while another loop runs in the caller's thread, which is blocked until the call
    returns. A call has the caller's context, with its deadline.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def call(self, work: Coroutine[Any, Any, T], within: float) -> T:
        """The result of the coroutine. Raises its errors, and TimeoutError after `within` seconds.

        Ctrl-C cancels it.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return future.result(within)
        except CancelledError as error:
            raise RuntimeError(f"the thread of {self._name} was closed during the call") from error
        finally:
            future.cancel()

    def close(self, last_work: Coroutine[Any, Any, None] | None = None) -> None:
        """Run `last_work` in the thread, cancel its running calls, and end it.

        Does nothing if the thread is not running.
        """
        with self._lock:
            thread, loop, stop = self._thread, self._loop, self._stop
            self._thread = self._loop = self._stop = None
        if thread is None or loop is None or stop is None or not thread.is_alive():
            if last_work is not None:
                last_work.close()
            return
        try:
            if last_work is not None:
                asyncio.run_coroutine_threadsafe(last_work, loop).result(STOP_TIMEOUT)
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(STOP_TIMEOUT)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
                self._thread = threading.Thread(
                    target=lambda: asyncio.run(_run_until_stopped(ready)),
                    name=self._name,
                    daemon=True,
                )
                self._thread.start()
                self._loop, self._stop = ready.result(START_TIMEOUT)
            return self._loop


async def _run_until_stopped(
    ready: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]",
) -> None:
    stop = asyncio.Event()
    ready.set_result((asyncio.get_running_loop(), stop))
    # When this returns, asyncio.run cancels all running tasks.
    await stop.wait()


class Evaluator(AsyncClosable):
    """Scores episodes whose screenshots are under `save_path`.

    `openai_config` is a dict or a Hydra node (`webgym.models.judge_settings`); None means that
    there is no judge. Unknown keys are reported as UnknownKeyWarning and not used. Raises
    RefusedError if the configuration cannot be used.
    """

    def __init__(
        self,
        openai_config: object,
        save_path: str | Path,
        *,
        evaluation_workers: int = 16,
        timeout: float = EVALUATION_TIMEOUT,
        screenshots: ScreenshotStore | None = None,
    ) -> None:
        """The judge reads `screenshots`, by default those under `save_path`."""
        settings = JudgeSettings.of(openai_config, strict=False)
        self.identity: dict[str, object] = settings.identity if settings else {}
        self.evaluation_workers = evaluation_workers
        self._timeout = timeout
        self._judge = JudgeModels(settings) if settings else None
        self._assessor = None
        if settings and self._judge:
            stored = screenshots or ScreenshotStore(Path(save_path))
            self._assessor = Assessor(self._judge, stored, settings.max_screenshots)
        self._slots: dict[asyncio.AbstractEventLoop, _EvaluatorSlots] = {}
        self._thread = LoopThread("evaluator")

    def start_url(self, task: WebTask, session: str) -> str:
        """The start page of an episode. Raises VerifierError for an invalid session name."""
        return start_url(task, session)

    async def evaluate(self, trajectory: Trajectory) -> EpisodeVerdict:
        """Score the episode. Raises VerifierError if it cannot be scored."""
        task = _task_of(trajectory)
        if task.verifier is None:
            assessor = self._assessor_for(f"task {task.task_id}")
            async with self._slot("evaluations"):
                return await assessor.assess(task, trajectory)
        return await self._check(task, trajectory)

    async def find_end(self, task: WebTask, session: str, start_url: str) -> str | None:
        """Why the task of a running episode is over; None if it is not, or if nothing says so.

        Raises VerifierError where the state of the session is lost.
        """
        if not task.is_checked_by_its_server:
            return None
        return await self._loop_slots().checks.find_end(task, session, start_url)

    async def check_blocked(self, trajectory: Trajectory) -> bool:
        """Whether the site blocked the agent at the end of the episode. Raises VerifierError."""
        task = _task_of(trajectory)
        if task.verifier is None:
            assessor = self._assessor_for(f"task {task.task_id}")
            async with self._slot("evaluations"):
                return (await assessor.blocking(trajectory)).verdict == "blocked"
        return (await self._check(task, trajectory)).is_blocked

    async def _check(self, task: WebTask, trajectory: Trajectory) -> EpisodeVerdict:
        """The verdict of the task's own check. Raises VerifierError."""
        async with self._slot("evaluations") as slots:
            if not task.is_checked_by_its_server:
                return await verify(task, trajectory)
            return (await slots.checks.evaluate(task, trajectory)).verdict()

    async def screenshot_is_blocked(self, picture: Picture) -> bool:
        """Whether this picture shows a page that blocks the agent. Raises VerifierError."""
        assessor = self._assessor_for("checking screenshots")
        async with self._slot("screenshots"):
            return await assessor.is_wall(picture)

    def get_verifiable_reward(
        self, trajectory: Trajectory | Mapping[str, object]
    ) -> tuple[float, dict[str, object], bool]:
        """Reward, evaluation, and whether the episode was blocked.

        Takes a Trajectory, or one of a `.pt` file, and waits for the result. Raises VerifierError,
        and TrajectoryError if the argument is not a trajectory.
        """
        verdict = self._wait_for(self.evaluate(_read(trajectory)))
        return verdict.reward, verdict.evaluation, verdict.is_blocked

    def check_if_blocked(self, trajectory: Trajectory | Mapping[str, object]) -> bool:
        """The same as `check_blocked`, but waits; takes the same as `get_verifiable_reward`."""
        return self._wait_for(self.check_blocked(_read(trajectory)))

    async def close(self) -> None:
        """Close the connections of this event loop, and those of the thread."""
        await self._close_loop()
        await asyncio.to_thread(self._end_thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_thread()

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        seconds = self._timeout + 2 * GRACE_SECONDS
        try:
            return self._thread.call(work, seconds)
        except TimeoutError as error:
            raise VerifierError(f"there was no verdict within {seconds:.0f} s") from error

    def _end_thread(self) -> None:
        self._thread.close(self._close_loop())

    async def _close_loop(self) -> None:
        slots = self._slots.pop(asyncio.get_running_loop(), None)
        if slots is not None:
            await slots.checks.close()
        if self._judge is not None:
            await self._judge.close()

    def _assessor_for(self, what: str) -> Assessor:
        if self._assessor is None:
            raise VerifierError(
                f"{what} needs a judge, but none is configured: set openai_config.model and "
                "openai_config.base_url to a vision model, or run tasks that have a verifier",
                retryable=False,
            )
        return self._assessor

    @asynccontextmanager
    async def _slot(self, kind: str) -> "AsyncIterator[_EvaluatorSlots]":
        """A slot with a deadline. Raises VerifierError if none is free in time."""
        slots, loop = self._loop_slots(), asyncio.get_running_loop()
        seconds = seconds_left(self._timeout)
        deadline = loop.time() + seconds
        semaphore = slots.semaphores[kind]
        await self._acquire(semaphore, seconds)
        try:
            # The work inside knows the deadline and raises the more precise error.
            with working_for("", deadline), Limit(deadline - loop.time() + GRACE_SECONDS):
                yield slots
        except TimeoutError as error:
            raise VerifierError(f"there was no verdict within {seconds:.0f} s") from error
        finally:
            semaphore.release()

    async def _acquire(self, semaphore: asyncio.Semaphore, seconds: float) -> None:
        try:
            with Limit(seconds):
                await semaphore.acquire()
        except TimeoutError as error:
            raise VerifierError(
                f"no evaluation slot was free within {seconds:.0f} s: {self.evaluation_workers} "
                "evaluations run at a time; allow more with evaluation_workers"
            ) from error

    def _loop_slots(self) -> "_EvaluatorSlots":
        loop = asyncio.get_running_loop()
        slots = self._slots.get(loop)
        if slots is None:
            for ended in [each for each in self._slots if each.is_closed()]:
                del self._slots[ended]
            slots = self._slots[loop] = _EvaluatorSlots(self.evaluation_workers)
        return slots


class _EvaluatorSlots:
    """The slots of one event loop, and its connections to the servers of tasks."""

    def __init__(self, workers: int) -> None:
        self.checks = TaskCheckClient()
        self.semaphores = {
            kind: asyncio.Semaphore(workers) for kind in ("evaluations", "screenshots")
        }


def _task_of(trajectory: Trajectory) -> WebTask:
    try:
        return WebTask.of(Row(bytes(trajectory.task)), trajectory.task_id)
    except RowError as error:
        raise VerifierError(
            f"the trajectory has no valid task: {error}", retryable=False
        ) from error


def _read(trajectory: Trajectory | Mapping[str, object]) -> Trajectory:
    return trajectory if isinstance(trajectory, Trajectory) else from_plain(trajectory)
