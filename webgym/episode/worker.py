"""The engine's worker for web agents: a browser for the episode, then the verdict on it.

*Three limits.* A session of the browser server is held while the episode plays, and given back
before the judge is asked, so browsers never wait for judges. How much is asked of the model and of
the judge at a time is up to them.

*What is kept.* A completed rollout has its judged trajectory. A failed one has the steps up to the
failure, no reward, and a typed failure; so has one whose deadline passed.
"""

import asyncio
from collections.abc import Sequence
from uuid import uuid4

import msgspec

from rollgym.engine import WorkItem
from rollgym.records import (
    Completed,
    DeadlineError,
    Failed,
    Failure,
    Outcome,
    RolloutError,
    RolloutKey,
    RowError,
    TaskError,
)
from rollgym.servers.context import working_for
from rollgym.store import BlobStore
from webgym.episode.browsers import Browsers
from webgym.episode.episode import Episode
from webgym.episode.parts import Agent, Watcher
from webgym.episode.settings import EpisodeSettings
from webgym.tasks import WebTask
from webgym.trajectory import UNPARSED, Step, Trajectory, Verdict

LAST_WORDS = 2.0
"""Seconds before the deadline at which an episode ends by itself, so that its steps are kept."""
_SUCCESS = 1.0
_RULES = {
    "goback": "the agent went back from the start page three times in a row",
    "blocked": "a screenshot shows a page that blocks the agent",
}


class EpisodeWorker:
    """Runs episodes. `sessions` is how many browsers may be held at a time."""

    def __init__(
        self,
        *,
        agent: Agent,
        browsers: Browsers,
        sessions: int,
        settings: EpisodeSettings,
        screenshots: BlobStore,
        watcher: Watcher,
    ) -> None:
        self._agent = agent
        self._browsers = browsers
        self._sessions = asyncio.Semaphore(sessions)
        self._settings = settings
        self._screenshots = screenshots
        self._watcher = watcher

    async def __call__(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        attempted = _Attempt(item, attempt, self._settings, self._agent)
        try:
            with working_for(f"{item.task.index}/{item.repeat}", deadline):
                return await self._until(deadline, attempted)
        except RolloutError as error:
            return Failed(
                Failure.of(error),
                result=attempted.result(),
                usage=attempted.trajectory().usage,
                phases=attempted.phases,
            )

    async def _until(self, deadline: float, attempted: "_Attempt") -> Outcome:
        loop = asyncio.get_running_loop()
        left = deadline - loop.time()
        try:
            async with asyncio.timeout_at(deadline - min(LAST_WORDS, left / 10)):
                return await self._attempt(attempted)
        except TimeoutError as error:
            raise DeadlineError(
                f"the episode was not over within {left:.0f} s; it was at step "
                f"{len(attempted.trajectory().steps)}"
            ) from error

    async def _attempt(self, attempted: "_Attempt") -> Outcome:
        task = attempted.open()
        attempted.start_url = self._agent.evaluator.start_url(task, attempted.session)
        self._watcher.waiting(attempted.key)
        async with self._sessions:
            await self._play(attempted, task)
        return attempted.completed(attempted.verdict_by_rule() or await self._judge(attempted))

    async def _judge(self, attempted: "_Attempt") -> Verdict:
        loop, phases = asyncio.get_running_loop(), attempted.phases
        trajectory = attempted.trajectory()
        self._watcher.running(attempted.key, "reward", len(trajectory.steps))
        began = loop.time()
        verdict = await self._agent.evaluator.evaluate(trajectory)
        phases["reward"] = phases.get("reward", 0.0) + loop.time() - began
        return verdict

    async def _play(self, attempted: "_Attempt", task: WebTask) -> None:
        settings = self._settings
        session = await self._browsers.get(settings.instance_lifetime_max, settings.wait_timeout)
        try:
            attempted.episode = Episode(
                key=attempted.key,
                task=task,
                start_url=attempted.start_url,
                conversation=attempted.session,
                seed=attempted.item.seed,
                agent=self._agent,
                settings=settings,
                screenshots=self._screenshots,
                watcher=self._watcher,
            )
            await attempted.episode.run(session)
        finally:
            await self._browsers.release(session)


class _Attempt:
    """What is known of one attempt, as far as it has come."""

    def __init__(
        self, item: WorkItem, attempt: int, settings: EpisodeSettings, agent: Agent
    ) -> None:
        self.item = item
        self.session = uuid4().hex
        self.start_url = ""
        self.episode: Episode | None = None
        self._attempt = attempt
        self._settings = settings
        self._agent = agent
        self._task: WebTask | None = None
        self._none: dict[str, float] = {}

    @property
    def key(self) -> RolloutKey:
        return self.item.key

    @property
    def phases(self) -> dict[str, float]:
        return self.episode.phases if self.episode else self._none

    def open(self) -> WebTask:
        """Read the row. Raises TaskError."""
        try:
            task = WebTask.of(self.item.task.row, str(self.item.task.index))
        except RowError as error:
            raise TaskError(f"the row is no web task: {error}") from error
        self._task = self._settings.placed(task)
        return self._task

    def trajectory(self) -> Trajectory:
        """As far as it has come; `task` stays the row that was given."""
        episode, task = self.episode, self._task
        steps = episode.log.broken() if episode else ()
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
            ending=episode.ending if episode else "failed",
            steps=steps,
        )

    def result(self) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(self.trajectory()))

    def verdict_by_rule(self) -> Verdict | None:
        """Some endings say themselves what they are worth."""
        ending = self.episode.ending if self.episode else ""
        if ending not in _RULES:
            return None
        return Verdict(
            reward=0.0,
            evaluation={"judge": f"rule:{ending}", "reason": _RULES[ending]},
            is_blocked=ending == "blocked",
        )

    def completed(self, verdict: Verdict) -> Completed:
        trajectory = self.trajectory().judged(verdict)
        return Completed(
            verdict.reward,
            success=verdict.reward >= _SUCCESS,
            measures=_measures(trajectory, verdict),
            usage=trajectory.usage,
            phases=self.phases,
            result=msgspec.Raw(msgspec.json.encode(trajectory)),
        )


def _model(steps: Sequence[Step]) -> str:
    """The name that the model's server last gave."""
    return next((step.response.model for step in reversed(steps) if step.response), "")


def _measures(trajectory: Trajectory, verdict: Verdict) -> dict[str, float]:
    keys = [step.action.key for step in trajectory.steps if step.action]
    said = [len(step.response.raw_response) for step in trajectory.steps if step.response]
    return {
        "steps": float(len(keys)),
        "response_length": sum(said) / len(said) if said else 0.0,
        "goback": float(keys.count("goback")),
        "unparsed": float(keys.count(UNPARSED)),
        "blocked": float(verdict.is_blocked),
    }
