"""What an episode uses: an agent, its judge, a browser session, a monitor, and its settings."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Protocol

import msgspec

from rollgym.records import RolloutKey
from rollgym.records.tokens import TokenSample
from rollgym.store import BlobRef, Setting
from webgym.actions.space import Action
from webgym.browser.contract.answers import Lease, Observe, Picture, StepAnswer
from webgym.browser.contract.commands import Command
from webgym.browser.contract.profile import RecordingKind
from webgym.context.page_view import AgentObservation, Round
from webgym.context.settings import ContextSettings
from webgym.tasks.task import SITES, Difficulty, Split, WebTask
from webgym.trajectory.records import EpisodeVerdict, ResponseRecord, Trajectory


class Decision(msgspec.Struct, frozen=True):
    """The response of an agent, and its action; None where the reply has none.

    `tokens` are those of the response, where the server gave them.
    """

    response: ResponseRecord
    action: Action | None
    tokens: TokenSample | None = None


class EpisodeJudge(Protocol):
    """Scores episodes. Each method raises VerifierError where there is no verdict."""

    def start_url(self, task: WebTask, session: str) -> str:
        """The start page of the episode, which identifies its session to the site."""

    async def find_end(self, task: WebTask, session: str, start_url: str) -> str | None:
        """Why the task is over, asked after each action; None if it is not."""

    async def evaluate(self, trajectory: Trajectory) -> EpisodeVerdict: ...

    async def screenshot_is_blocked(self, picture: Picture) -> bool: ...


class Agent(Protocol):
    """Decides one step at a time. It is used as an asynchronous context manager."""

    async def __aenter__(self) -> object: ...

    async def __aexit__(self, *error: object) -> None: ...

    @property
    def identity(self) -> Mapping[str, object]:
        """The part of its configuration that can change results."""

    @property
    def context(self) -> ContextSettings: ...

    @property
    def observe(self) -> Observe:
        """What the agent observes after each step."""

    @property
    def evaluator(self) -> EpisodeJudge: ...

    async def decide(
        self,
        task: WebTask,
        past: Sequence[Round],
        current: AgentObservation,
        *,
        conversation: str,
        seed: int,
    ) -> Decision:
        """The next action. Raises RolloutError where the model gives none."""


class EpisodeMonitor(Protocol):
    """Gets the progress of each episode. Its methods must return at once."""

    def waiting(self, key: RolloutKey) -> None:
        """The episode waits for a browser."""

    def running(self, key: RolloutKey, phase: str, step: int) -> None:
        """The episode is in this phase (navigate, model, execute, reward) of this step, from 1."""


class EpisodeFiles(Protocol):
    """Stores screenshots and other files of episodes, such as `rollgym.store.BlobStore`."""

    async def put(self, data: bytes, extension: str = "") -> BlobRef:
        """Store bytes; they are on the disk of the run then. Raises StorageError."""

    async def read(self, ref: BlobRef) -> bytes:
        """The content of a file. Raises StorageError."""


class KeptEpisodes(Protocol):
    """Keeps episodes until they have a verdict, such as `UnjudgedEpisodes`."""

    async def keep(self, key: RolloutKey, trajectory: Trajectory) -> None:
        """Keep an episode until its rollout has an outcome. Raises StorageError."""

    async def find(self, key: RolloutKey) -> Trajectory | None:
        """The episode of a rollout, if it has one. Raises StoreError."""

    async def discard(self, key: RolloutKey) -> None:
        """Forget an episode that has to run again. Raises StorageError."""


class WebSession(Protocol):
    """A browser session, until it is released."""

    @property
    def lease(self) -> Lease: ...

    async def step(
        self,
        command: Command | None = None,
        observe: Observe | None = None,
        *,
        within: float | None = None,
    ) -> StepAnswer:
        """Carry out a command and observe; an action that the page prevents is in the answer.

        Raises BrowserError where the session is lost, BrowserUnavailableError, DeadlineError.
        """

    async def recording(self, kind: RecordingKind) -> bytes:
        """A recording that the session's profile asks for. Raises as `step`."""


class EpisodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of an episode. Times are in seconds.

    - `max_steps`: the most steps, by difficulty.
    - `wait_timeout`: the longest wait for a browser.
    - `task_timeout`: the longest episode from then on; `operation_timeout`: the longest step.
    - `evaluation_timeout`: the longest time for the verdict after that.
    - `instance_lifetime_max`: minutes after which the server ends the browser session.
    - `watch_for_blocking`: whether the judge checks every new screenshot during the episode.
    - `sites_url`: the URL that replaces `{sites}` in a task's website.
    - `recorded`: the recordings of the session that are kept.
    """

    split: Split
    max_steps: dict[Difficulty, int]
    wait_timeout: Annotated[float, Setting.TIMING]
    task_timeout: Annotated[float, Setting.TIMING]
    operation_timeout: Annotated[float, Setting.TIMING]
    evaluation_timeout: Annotated[float, Setting.TIMING]
    instance_lifetime_max: Annotated[float, Setting.TIMING]
    watch_for_blocking: bool
    sites_url: Annotated[str, Setting.ADDRESS]
    recorded: Annotated[tuple[RecordingKind, ...], Setting.NOTE] = ()

    def steps_for(self, task: WebTask) -> int:
        return self.max_steps[task.category]

    def with_site_address(self, task: WebTask) -> WebTask:
        """The task with the current address of its site."""
        if not self.sites_url or SITES not in task.website:
            return task
        website = task.website.replace(SITES, self.sites_url.rstrip("/"), 1)
        return msgspec.structs.replace(task, website=website)
