"""What an episode needs of others: an agent that decides, a judge, somebody who watches."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from rollgym.records import RolloutKey
from webgym.actions import Action
from webgym.browser.contract.answers import Lease, Observe, Picture, StepAnswer
from webgym.browser.contract.commands import Command
from webgym.context.page_view import AgentObservation, Round
from webgym.context.settings import ContextSettings
from webgym.tasks import SITES, Difficulty, Split, WebTask
from webgym.trajectory import EpisodeVerdict, ResponseRecord, Trajectory


class Decision(msgspec.Struct, frozen=True):
    """What an agent said, and the action that it means; None where it means none."""

    response: ResponseRecord
    action: Action | None


class Judge(Protocol):
    """Says what an episode is worth. Each method raises VerifierError where nobody can tell."""

    def start_url(self, task: WebTask, session: str) -> str:
        """Where the episode begins, so that what it does can be told apart."""

    async def evaluate(self, trajectory: Trajectory) -> EpisodeVerdict: ...

    async def screenshot_is_blocked(self, picture: Picture) -> bool: ...


class Agent(Protocol):
    """Decides what to do, one step at a time, between its beginning and its end as a context."""

    async def __aenter__(self) -> object: ...

    async def __aexit__(self, *error: object) -> None: ...

    @property
    def identity(self) -> Mapping[str, object]:
        """What of its configuration can change results."""

    @property
    def context(self) -> ContextSettings: ...

    @property
    def observe(self) -> Observe:
        """What it has to see after each step."""

    @property
    def evaluator(self) -> Judge: ...

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


class Watcher(Protocol):
    """Is told where each episode stands; it must return at once."""

    def waiting(self, key: RolloutKey) -> None:
        """It waits for a browser."""

    def running(self, key: RolloutKey, phase: str, step: int) -> None:
        """It is at this phase (navigate, model, execute, reward) of this step, from 1."""


class WebSession(Protocol):
    """One session, until it is given back."""

    @property
    def lease(self) -> Lease: ...

    async def step(
        self,
        command: Command | None = None,
        observe: Observe | None = None,
        *,
        within: float | None = None,
    ) -> StepAnswer:
        """Carry out a command and observe; what the page did not let happen is in the answer.

        Raises BrowserError where the session is lost, BrowserUnavailableError, DeadlineError.
        """


class Browsers(Protocol):
    """Where sessions come from."""

    async def get(self, lifetime_mins: float = 60, wait_seconds: float = 60) -> WebSession:
        """Take a session, waiting for one for at most `wait_seconds`.

        Raises BrowserUnavailableError where none was free in time, DeadlineError.
        """

    async def release(self, session: Any) -> None:
        """Give a session of `get` back; each source takes its own kind. Raises nothing."""


class EpisodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in seconds.

    - `max_steps`: the most steps, by difficulty.
    - `wait_timeout`: how long to wait for a browser.
    - `task_timeout`: how long an episode may take from then on, with the verdict on it;
      `operation_timeout` one step of it.
    - `instance_lifetime_max`: minutes after which the server takes the browser back.
    - `watch_for_blocking`: whether the judge looks at every new screenshot while the episode runs.
    - `sites_url`: what `{sites}` in a task's website means.
    """

    split: Split
    max_steps: dict[Difficulty, int]
    wait_timeout: float
    task_timeout: float
    operation_timeout: float
    instance_lifetime_max: float
    watch_for_blocking: bool
    sites_url: str

    def steps_for(self, task: WebTask) -> int:
        return self.max_steps[task.category]

    def placed(self, task: WebTask) -> WebTask:
        """The task at the address where its site is now."""
        if not self.sites_url or SITES not in task.website:
            return task
        website = task.website.replace(SITES, self.sites_url.rstrip("/"), 1)
        return msgspec.structs.replace(task, website=website)
