"""The evaluator: what an episode is worth, and whether the site kept the agent out.

*Who judges.* A task that names a `verifier` knows its own truth (`webgym.models.truth`); all others
need a judge, a vision model that `openai_config` describes (`webgym.models.judging`). A verdict
comes from one of them or not at all: where nobody can tell, VerifierError is raised, and there is
no reward.

*Limits.* `evaluation_workers` episodes are judged at a time, and as many single screenshots looked
at; further ones wait. All of it ends with the caller's deadline, and after `timeout` seconds at the
latest.

*Two ways to call it.* The asynchronous methods are for whoever runs many episodes; connections
belong to an event loop, so each loop gets its own. `get_verifiable_reward` and `check_if_blocked`
wait for the result, on a loop in a thread of their own, so they also work in a notebook.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from rollgym.records import Row, RowError, VerifierError
from rollgym.servers.context import seconds_left, working_for
from rollgym.servers.limit import Limit
from webgym.browser.contract.answers import Picture
from webgym.models.judging.assessment import Assessor
from webgym.models.judging.exhibits import Album
from webgym.models.judging.judge import Judge
from webgym.models.judging.settings import JudgeSettings
from webgym.models.loop_thread import LoopThread
from webgym.models.truth import TruthSource, start_url
from webgym.tasks import WebTask
from webgym.trajectory import Trajectory, Verdict
from webgym.trajectory.plain import from_plain

EVALUATION_SECONDS = 600.0
SLACK = 1.0
"""How much later a guard looks whether a deadline was kept."""

T = TypeVar("T")


class Evaluator:
    """Judges episodes whose screenshots are under `save_path`.

    `openai_config` is a dict or a Hydra node (`webgym.models.judging.settings`); None means that
    there is no judge. Raises RefusedError where the configuration cannot be used.
    """

    def __init__(
        self,
        openai_config: object,
        save_path: str | Path,
        *,
        evaluation_workers: int = 16,
        timeout: float = EVALUATION_SECONDS,
    ) -> None:
        settings = JudgeSettings.of(openai_config)
        self.identity: dict[str, object] = settings.identity if settings else {}
        self.evaluation_workers = evaluation_workers
        self._timeout = timeout
        self._judge = Judge(settings) if settings else None
        self._assessor = None
        if settings and self._judge:
            album = Album(Path(save_path))
            self._assessor = Assessor(self._judge, album, settings.max_screenshots)
        self._rooms: dict[asyncio.AbstractEventLoop, _Room] = {}
        self._thread = LoopThread("evaluator")

    @property
    def has_judge(self) -> bool:
        return self._assessor is not None

    def needs_judge(self, task: WebTask) -> bool:
        """Whether only a judge can tell what an episode of this task is worth."""
        return task.verifier is None

    def start_url(self, task: WebTask, session: str) -> str:
        """Where an episode of this task begins. Raises VerifierError for a useless session."""
        return start_url(task, session)

    async def evaluate(self, trajectory: Trajectory) -> Verdict:
        """What the episode is worth. Raises VerifierError where nobody can tell."""
        task = _task_of(trajectory)
        if self.needs_judge(task):
            assessor = self._assessor_for(f"task {task.task_id}")
            async with self._turn("evaluations"):
                return await assessor.assess(task, trajectory)
        async with self._turn("evaluations") as room:
            evaluation = await room.truth.judge(task, trajectory)
        return Verdict(
            reward=evaluation.reward,
            evaluation=evaluation.as_json(),
            is_blocked=evaluation.is_blocked,
        )

    async def check_blocked(self, trajectory: Trajectory) -> bool:
        """Whether the site kept the agent out when the episode ended. Raises VerifierError."""
        task = _task_of(trajectory)
        if self.needs_judge(task):
            assessor = self._assessor_for(f"task {task.task_id}")
            async with self._turn("evaluations"):
                return (await assessor.blocking(trajectory)).verdict == "blocked"
        async with self._turn("evaluations") as room:
            return (await room.truth.judge(task, trajectory)).is_blocked

    async def screenshot_is_blocked(self, picture: Picture) -> bool:
        """Whether this picture shows a page that keeps the agent out. Raises VerifierError."""
        assessor = self._assessor_for("looking at screenshots")
        async with self._turn("glances"):
            return await assessor.glance(picture)

    def get_verifiable_reward(
        self, trajectory: Trajectory | Mapping[str, object]
    ) -> tuple[float, dict[str, object], bool]:
        """Reward, evaluation, and whether the episode was blocked.

        Takes a Trajectory, or one of a `.pt` file. Waits for the result. Raises VerifierError, and
        TrajectoryError where it is none.
        """
        verdict = self._wait_for(self.evaluate(_read(trajectory)))
        return verdict.reward, verdict.evaluation, verdict.is_blocked

    def check_if_blocked(self, trajectory: Trajectory | Mapping[str, object]) -> bool:
        """`check_blocked` for those who wait; takes what `get_verifiable_reward` takes."""
        return self._wait_for(self.check_blocked(_read(trajectory)))

    async def close(self) -> None:
        """Close the connections of this event loop, and those of the waiting calls."""
        await self._leave()
        await asyncio.to_thread(self._end_thread)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_thread()

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        seconds = self._timeout + 2 * SLACK
        try:
            return self._thread.call(work, seconds)
        except TimeoutError as error:
            raise VerifierError(f"there was no verdict within {seconds:.0f} s") from error

    def _end_thread(self) -> None:
        self._thread.close(self._leave())

    async def _leave(self) -> None:
        room = self._rooms.pop(asyncio.get_running_loop(), None)
        if room is not None:
            await room.truth.close()
        if self._judge is not None:
            await self._judge.close()

    def _assessor_for(self, what: str) -> Assessor:
        if self._assessor is None:
            raise VerifierError(
                f"{what} needs a judge, and there is none: set openai_config.model and "
                "openai_config.base_url to a vision model, or run tasks that have a verifier",
                retryable=False,
            )
        return self._assessor

    @asynccontextmanager
    async def _turn(self, kind: str) -> "AsyncIterator[_Room]":
        """A turn among so many, with a deadline. Raises VerifierError where there is none."""
        room, loop = self._room(), asyncio.get_running_loop()
        seconds = seconds_left(self._timeout)
        deadline = loop.time() + seconds
        turns = room.turns[kind]
        await self._take(turns, seconds)
        try:
            # Whatever waits inside knows the deadline and says best what it waited for.
            with working_for("", deadline), Limit(deadline - loop.time() + SLACK):
                yield room
        except TimeoutError as error:
            raise VerifierError(f"there was no verdict within {seconds:.0f} s") from error
        finally:
            turns.release()

    async def _take(self, turns: asyncio.Semaphore, seconds: float) -> None:
        try:
            with Limit(seconds):
                await turns.acquire()
        except TimeoutError as error:
            raise VerifierError(
                f"nobody was free to judge within {seconds:.0f} s: {self.evaluation_workers} are "
                "at work at a time; allow more with evaluation_workers"
            ) from error

    def _room(self) -> "_Room":
        loop = asyncio.get_running_loop()
        room = self._rooms.get(loop)
        if room is None:
            for ended in [each for each in self._rooms if each.is_closed()]:
                del self._rooms[ended]
            room = self._rooms[loop] = _Room(self.evaluation_workers)
        return room


class _Room:
    """What one event loop has of an evaluator."""

    def __init__(self, workers: int) -> None:
        self.truth = TruthSource()
        self.turns = {kind: asyncio.Semaphore(workers) for kind in ("evaluations", "glances")}


def _task_of(trajectory: Trajectory) -> WebTask:
    try:
        return WebTask.of(Row(bytes(trajectory.task)), trajectory.task_id)
    except RowError as error:
        raise VerifierError(
            f"the trajectory has no task to judge it by: {error}", retryable=False
        ) from error


def _read(trajectory: Trajectory | Mapping[str, object]) -> Trajectory:
    return trajectory if isinstance(trajectory, Trajectory) else from_plain(trajectory)
