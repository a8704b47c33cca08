"""An agent that follows a list and a browser that answers from one, for episodes without either."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rollgym.engine import WorkItem
from rollgym.records import RolloutKey, Row, Task
from webgym.actions.space import Action
from webgym.browser.contract.answers import (
    CommandFailure,
    Lease,
    Observe,
    PageInfo,
    Picture,
    StepAnswer,
)
from webgym.browser.contract.commands import Command, VisitPage
from webgym.context.page_view import AgentObservation, Round
from webgym.context.settings import ContextSettings
from webgym.episode.interfaces import Decision, EpisodeJudge
from webgym.tasks.task import WebTask
from webgym.trajectory.records import EpisodeVerdict, ResponseRecord, Trajectory

START = "http://shop.example/start"
Planned = Action | str | Exception
"""An action, a reply that is none (with the reason), or what is raised."""


def item(**fields: object) -> WorkItem:
    row = {"task_name": "Buy a kettle", "website": START, "difficulty": 1} | fields
    return WorkItem(Task(0, Row.of(row)), 0, seed=7)


def page(url: str = START, picture: bytes | None = None) -> StepAnswer:
    shown = Picture("image/png", picture or url.encode())
    return StepAnswer(PageInfo(url, "A page"), {}, screenshot=shown)


def refusal(kind: str, message: str) -> StepAnswer:
    return StepAnswer(PageInfo("about:blank", ""), {}, error=CommandFailure(kind, message))


class ListedJudge:
    """Gives one verdict; `asked` is what it was asked about."""

    evaluation_workers = 1

    def __init__(self, verdict: EpisodeVerdict | Exception | None = None) -> None:
        self.verdict = verdict or EpisodeVerdict(reward=1.0, evaluation={"judge": "list"})
        self.walls: set[bytes] = set()
        self.ends: list[str | None] = []
        self.asked: list[Trajectory] = []

    def start_url(self, task: WebTask, session: str) -> str:
        return task.website

    async def find_end(self, task: WebTask, session: str, start_url: str) -> str | None:
        return self.ends.pop(0) if self.ends else None

    async def evaluate(self, trajectory: Trajectory) -> EpisodeVerdict:
        self.asked.append(trajectory)
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict

    async def screenshot_is_blocked(self, picture: Picture) -> bool:
        return picture.data in self.walls


class ListedAgent:
    """Does what the plan says, step by step; `seen` is what it was shown."""

    observe = Observe()
    identity: Mapping[str, object] = {}

    def __init__(self, plan: Sequence[Planned], judge: EpisodeJudge | None = None) -> None:
        self.context = ContextSettings()
        self.evaluator: EpisodeJudge = judge or ListedJudge()
        self.seen: list[tuple[list[Round], AgentObservation]] = []
        self._plan = list(plan)

    async def __aenter__(self) -> "ListedAgent":
        return self

    async def __aexit__(self, *error: object) -> None:
        return None

    async def decide(
        self,
        task: WebTask,
        past: Sequence[Round],
        current: AgentObservation,
        *,
        conversation: str,
        seed: int,
    ) -> Decision:
        self.seen.append((list(past), current))
        planned = self._plan.pop(0)
        match planned:
            case Exception():
                raise planned
            case str():
                response = ResponseRecord(raw_response="gibberish", parse_failure=planned)
                return Decision(response, None)
            case _:
                return Decision(ResponseRecord(raw_response=str(planned)), planned)


class ListedBrowsers:
    """One session after another; each answers commands by a function, or page after page."""

    def __init__(self, answer: Callable[[Command | None], StepAnswer] | None = None) -> None:
        self.commands: list[Command | None] = []
        self.held = 0
        self.most_held = 0
        self._answer = answer or _next_page

    async def get(self, lifetime_mins: float = 60, wait_seconds: float = 60) -> "ListedBrowsers":
        self.held += 1
        self.most_held = max(self.most_held, self.held)
        return self

    async def release(self, session: Any) -> None:
        self.held -= 1

    @property
    def lease(self) -> Lease:
        return Lease("1", "node")

    async def step(
        self,
        command: Command | None = None,
        observe: Observe | None = None,
        *,
        within: float | None = None,
    ) -> StepAnswer:
        self.commands.append(command)
        return self._answer(command)


class Notes:
    """What a watcher was told."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, int]] = []

    def waiting(self, key: RolloutKey) -> None:
        self.phases.append(("waiting", 0))

    def running(self, key: RolloutKey, phase: str, step: int) -> None:
        self.phases.append((phase, step))


def _next_page(command: Command | None) -> StepAnswer:
    return page(command.url) if isinstance(command, VisitPage) else page(f"{START}/next")
