"""What an episode needs of others: an agent that decides, a judge, somebody who watches."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from rollgym.records import RolloutKey
from webgym.browser.contract.answers import Observe, Picture
from webgym.context.settings import ContextSettings
from webgym.context.sight import Round, Sight
from webgym.environment.actions import Action
from webgym.tasks import WebTask
from webgym.trajectory import ResponseRecord, Trajectory, Verdict


class Decision(msgspec.Struct, frozen=True):
    """What an agent said, and the action that it means; None where it means none."""

    response: ResponseRecord
    action: Action | None


class Judge(Protocol):
    """Says what an episode is worth. Each method raises VerifierError where nobody can tell."""

    evaluation_workers: int
    """How many episodes it judges at a time."""

    def start_url(self, task: WebTask, session: str) -> str:
        """Where the episode begins, so that what it does can be told apart."""

    async def evaluate(self, trajectory: Trajectory) -> Verdict: ...

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
        self, task: WebTask, past: Sequence[Round], sight: Sight, *, conversation: str, seed: int
    ) -> Decision:
        """The next action. Raises RolloutError where the model gives none."""


class Watcher(Protocol):
    """Is told where each episode stands; it must return at once."""

    def waiting(self, key: RolloutKey) -> None:
        """It waits for a browser."""

    def running(self, key: RolloutKey, phase: str, step: int) -> None:
        """It is at this phase (navigate, model, execute, reward) of this step, from 1."""
