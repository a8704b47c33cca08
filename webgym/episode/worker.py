"""The engine's worker for web agents: an episode in a browser session, then its verdict.

*Three limits.* A browser session is in use while the episode runs, and released before the judge is
called, so browsers never wait for judges. The model and the judge bound their own concurrency.

*Time.* An attempt first waits for a browser. All attempts of a rollout wait up to one deadline. The
timeout of its task counts from then on, and judging has its own after it. An episode that ended is
kept until it has a verdict (`judging`): a further attempt only judges it.

*Results.* A completed rollout has its scored trajectory. A failed one, also after a timeout or a
cancellation, has the steps up to the failure, a typed failure and no reward. A screenshot that
cannot be stored stops the run, as a record of the journal does.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import cast
from uuid import uuid4

import msgspec

from rollgym.engine import WorkItem
from rollgym.records import (
    BrowserUnavailableError,
    Completed,
    DeadlineError,
    Failed,
    Failure,
    FailureKind,
    ModelUse,
    ModelUses,
    Outcome,
    RolloutError,
    RolloutKey,
    RowError,
    TaskError,
    VerifierError,
)
from rollgym.servers.context import after_the_deadline, working_for
from rollgym.servers.limit import Limit
from rollgym.store import StorageError
from webgym.browser.contract.profile import RecordingKind
from webgym.client.sessions import SessionSource
from webgym.episode.episode import WebEpisode
from webgym.episode.interfaces import (
    Agent,
    EpisodeFiles,
    EpisodeMonitor,
    EpisodeSettings,
    KeptEpisodes,
    WebSession,
)
from webgym.episode.judging import completed, counting_judge_calls, judge, turns_of
from webgym.episode.log import PhaseTimes
from webgym.tasks.task import WebTask
from webgym.trajectory.records import NO_BROWSER, EpisodeVerdict, Step, Trajectory

END_GRACE_SECONDS = 10.0
"""Seconds that the engine waits longer than the timeout of an episode, which ends by itself."""
WAITING = "browser"
"""The phase of waiting for a browser."""
_WAIT_MARGIN = 6.0
"""Seconds before the deadline at which a client may already give up, because a pause is longer."""
_RULES = {
    "goback": "the agent went back from the start page three times in a row",
    "blocked": "a screenshot shows a page that blocks the agent",
}


RECORDING_SECONDS = 4.0
"""For each recording of a session, also after the timeout of its episode."""
_RECORDING_ENDINGS: dict[RecordingKind, str] = {"har": ".har", "video": ".webp"}
_LOGGER = logging.getLogger(__name__)


class EpisodeWorker:
    """Runs episodes. `sessions` is the number of browser sessions in use at a time."""

    def __init__(
        self,
        *,
        agent: Agent,
        browsers: SessionSource,
        sessions: int,
        settings: EpisodeSettings,
        screenshots: EpisodeFiles,
        monitor: EpisodeMonitor,
        unjudged: KeptEpisodes,
    ) -> None:
        self._agent = agent
        self._browsers = browsers
        self._sessions = asyncio.Semaphore(sessions)
        self._settings = settings
        self._screenshots = screenshots
        self._monitor = monitor
        self._unjudged = unjudged
        self._waiting: set[RolloutKey] = set()
        self._wait_deadlines: dict[RolloutKey, float] = {}

    def waits(self, key: RolloutKey) -> bool:
        """Whether this rollout has no browser yet."""
        return key in self._waiting

    async def __call__(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        with counting_judge_calls() as judged:
            attempted = _EpisodeAttempt(item, attempt, self._settings, self._agent, judged)
            return await self._outcome(attempted, deadline)

    async def _outcome(self, attempted: "_EpisodeAttempt", deadline: float) -> Outcome:
        try:
            return await self._attempt(attempted, deadline)
        except asyncio.CancelledError:
            # The engine knows why it cancels; the steps so far are kept.
            over = asyncio.get_running_loop().time() >= deadline
            if attempted.lacks_browser:
                return attempted.failed(_no_browser(over=over))
            kind = FailureKind.TIMEOUT if over else FailureKind.CANCELLED
            return attempted.failed(Failure.make(kind, "the episode was cancelled"))
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001 - a bug, which keeps its steps too
            return attempted.failed(Failure.of(error))

    async def _attempt(self, attempted: "_EpisodeAttempt", deadline: float) -> Outcome:
        task = attempted.open()
        keeps = not task.is_checked_by_its_server
        if keeps:
            attempted.stored = await self._unjudged.find(attempted.key)
        if attempted.stored is None:
            await self._play(attempted, task, deadline)
            if (verdict := attempted.verdict_by_rule()) is not None:
                return attempted.completed(verdict)
            if keeps:
                await self._unjudged.keep(attempted.key, attempted.trajectory())
        try:
            verdict = await self._judge(attempted)
        except VerifierError:
            if keeps:  # with the tokens that were spent on it
                await self._unjudged.keep(attempted.key, attempted.trajectory())
            raise
        except RolloutError:  # a verifier says that the episode itself has to run again
            await self._unjudged.discard(attempted.key)
            raise
        return attempted.completed(verdict)

    async def _play(self, attempted: "_EpisodeAttempt", task: WebTask, deadline: float) -> None:
        """Run the episode to its end, in a browser session that is released then."""
        attempted.start_url = self._agent.evaluator.start_url(task, attempted.session)
        with working_for(attempted.name, deadline):
            session = await self._acquire_session(attempted)
        loop, within = asyncio.get_running_loop(), self._settings.task_timeout
        due = loop.time() + within
        try:
            with working_for(attempted.name, due):
                async with asyncio.timeout_at(due):
                    try:
                        await self._run(attempted, task, session)
                    finally:
                        try:
                            await self._keep_recordings(attempted, session)
                        finally:
                            self._sessions.release()
                            await self._browsers.release(session)
        except TimeoutError as error:
            raise DeadlineError(
                f"the episode did not end within {within:.0f} s; it was at step "
                f"{len(attempted.trajectory().steps)}"
            ) from error

    async def _acquire_session(self, attempted: "_EpisodeAttempt") -> WebSession:
        """Wait for a browser session. Raises BrowserUnavailableError.

        Further attempts wait up to the same deadline, until the rollout has got a session.
        """
        settings, loop, key = self._settings, asyncio.get_running_loop(), attempted.key
        began = loop.time()
        until = self._wait_deadlines.setdefault(key, began + settings.wait_timeout)
        attempted.lacks_browser = True
        self._waiting.add(key)
        self._monitor.waiting(key)
        try:
            async with asyncio.timeout_at(until):
                session = await self._next_session(until)
        except (TimeoutError, DeadlineError, BrowserUnavailableError) as error:
            if loop.time() + _WAIT_MARGIN < until:
                raise BrowserUnavailableError(f"no browser: {error}") from error
            self._wait_deadlines.pop(key, None)
            why = f": {error}" if str(error) else ""
            raise BrowserUnavailableError(
                f"no browser: none was free within {settings.wait_timeout:g} s{why}",
                retryable=False,
            ) from error
        finally:
            self._waiting.discard(key)
            attempted.times.add(WAITING, began, loop.time())
        self._wait_deadlines.pop(key, None)
        attempted.lacks_browser = False
        return session

    async def _next_session(self, until: float) -> WebSession:
        await self._sessions.acquire()
        try:
            left = until - asyncio.get_running_loop().time()
            found = await self._browsers.get(self._settings.instance_lifetime_max, left)
            return cast("WebSession", found)
        except BaseException:
            self._sessions.release()
            raise

    async def _run(self, attempted: "_EpisodeAttempt", task: WebTask, session: WebSession) -> None:
        attempted.episode = WebEpisode(
            key=attempted.key,
            task=task,
            start_url=attempted.start_url,
            conversation=attempted.session,
            seed=attempted.item.seed,
            agent=self._agent,
            settings=self._settings,
            screenshots=self._screenshots,
            monitor=self._monitor,
            times=attempted.times,
        )
        await attempted.episode.run(session)

    async def _keep_recordings(self, attempted: "_EpisodeAttempt", session: WebSession) -> None:
        """Store the recordings of a session. One that cannot be fetched is left out."""
        for kind in self._settings.recorded:
            try:
                with after_the_deadline(), Limit(RECORDING_SECONDS):
                    data = await session.recording(kind)
            except Exception as error:  # noqa: BLE001 - a recording is for people, not for results
                _LOGGER.warning("no %s of rollout %s: %s", kind, attempted.name, error)
                continue
            stored = await self._screenshots.put(data, _RECORDING_ENDINGS[kind])
            attempted.recordings[kind] = stored.name

    async def _judge(self, attempted: "_EpisodeAttempt") -> EpisodeVerdict:
        loop = asyncio.get_running_loop()
        trajectory, within = attempted.trajectory(), self._settings.evaluation_timeout
        self._monitor.running(attempted.key, "reward", len(trajectory.steps))
        began = loop.time()
        try:
            return await judge(self._agent.evaluator, trajectory, within, attempted.name)
        finally:
            attempted.times.add("reward", began, loop.time())


class _EpisodeAttempt:
    """The state of one attempt."""

    def __init__(
        self,
        item: WorkItem,
        attempt: int,
        settings: EpisodeSettings,
        agent: Agent,
        judged: ModelUses,
    ) -> None:
        """`stored` is the episode where an earlier attempt ended it."""
        self.stored: Trajectory | None = None
        self._judged = judged
        self.item = item
        self.session = uuid4().hex
        self.start_url = ""
        self.episode: WebEpisode | None = None
        self.times = PhaseTimes(asyncio.get_running_loop().time())
        self.lacks_browser = False
        self.recordings: dict[str, str] = {}
        self._attempt = attempt
        self._settings = settings
        self._agent = agent
        self._task: WebTask | None = None

    @property
    def key(self) -> RolloutKey:
        return self.item.key

    @property
    def name(self) -> str:
        return f"{self.item.task.index}/{self.item.repeat}"

    def open(self) -> WebTask:
        """Read the row. Raises TaskError."""
        try:
            task = WebTask.of(self.item.task.row, str(self.item.task.index))
        except RowError as error:
            raise TaskError(f"the row is not a web task: {error}") from error
        self._task = self._settings.with_site_address(task)
        return self._task

    def trajectory(self) -> Trajectory:
        """The trajectory so far; `task` is the row unchanged."""
        if self.stored is not None:
            spent = self.stored.judge_usage + self._judged.usage
            return msgspec.structs.replace(self.stored, judge_usage=spent)
        episode, task = self.episode, self._task
        steps = episode.log.unfinished() if episode else ()
        return Trajectory(
            task_id=task.task_id if task else str(self.item.task.index),
            task=msgspec.Raw(self.item.task.row.raw),
            trajectory_index=self.item.task.index,
            repeat=self.item.repeat,
            attempt=self._attempt,
            split=self._settings.split,
            interaction_mode=self._agent.context.interaction_mode,
            model=_model(steps),
            max_steps=self._settings.steps_for(task) if task else 0,
            session=self.session,
            start_url=self.start_url,
            ending=episode.ending if episode else NO_BROWSER if self.lacks_browser else "failed",
            judge_usage=self._judged.usage,
            final_page=episode.final_page if episode else None,
            recordings=self.recordings,
            steps=steps,
        )

    def failed(self, failure: Failure) -> Failed:
        """The outcome of a failed attempt, with its steps so far."""
        trajectory = self.trajectory()
        result = msgspec.Raw(msgspec.json.encode(trajectory))
        return Failed(
            failure,
            result=result,
            usage=trajectory.usage,
            models=self._models(trajectory),
            phases=self.times.phases,
            spans=tuple(self.times.spans),
            turns=turns_of(trajectory, played_before=self.stored is not None),
        )

    def completed(self, verdict: EpisodeVerdict) -> Completed:
        """The outcome of an attempt with a verdict."""
        trajectory = self.trajectory()
        return completed(
            trajectory,
            verdict,
            self.times,
            self._models(trajectory),
            played_before=self.stored is not None,
        )

    def _models(self, trajectory: Trajectory) -> tuple[ModelUse, ...]:
        """The calls of this attempt. Those of a stored episode were counted when it was played."""
        played = trajectory.model_uses.all
        if self.stored is not None:
            played = tuple(ModelUse(use.model, use.role) for use in played)
        return played + self._judged.all

    def verdict_by_rule(self) -> EpisodeVerdict | None:
        """The verdict of an ending that decides it."""
        ending = self.episode.ending if self.episode else ""
        if ending not in _RULES:
            return None
        return EpisodeVerdict(
            reward=0.0,
            evaluation={"judge": f"rule:{ending}", "reason": _RULES[ending]},
            is_blocked=ending == "blocked",
        )


def _no_browser(*, over: bool) -> Failure:
    """The failure of an attempt that was cancelled while it waited for a browser."""
    if over:
        kind, why = FailureKind.BROWSER_UNAVAILABLE, "none was free before the deadline"
    else:
        kind, why = FailureKind.CANCELLED, "the episode was cancelled while it waited for one"
    return Failure.make(kind, f"no browser: {why}")


def _model(steps: Sequence[Step]) -> str:
    """The name that the model's server returned last."""
    return next((step.response.model for step in reversed(steps) if step.response), "")
