"""The log of an episode: its steps as they are made, complete at any time, and its times."""

import asyncio

import msgspec

from rollgym.records import Span
from rollgym.records.tokens import TokenLog, TokenSample, TurnKind
from rollgym.servers.spans import MOST_SPANS
from webgym.browser.contract.answers import StepAnswer
from webgym.context.page_view import AgentObservation, Round
from webgym.trajectory.records import (
    ActionRecord,
    Image,
    Observation,
    ResponseRecord,
    Step,
    StoredFile,
)


def observation_of(
    answer: StepAnswer, image: Image | None, files: tuple[StoredFile, ...] = ()
) -> Observation:
    """The record of what the browser answered, with its stored screenshot and downloads."""
    return Observation(
        screenshot=image,
        page=answer.page,
        tree=answer.tree,
        incidents=answer.incidents,
        downloads=files,
        settled=answer.settled,
    )


class PhaseTimes:
    """The seconds of each phase of an attempt, and the spans of its first phases."""

    __slots__ = ("_began", "phases", "spans")

    def __init__(self, began: float) -> None:
        """`began` is the time of the event loop at which the attempt started."""
        self.phases: dict[str, float] = {}
        self.spans: list[Span] = []
        self._began = began

    @property
    def elapsed(self) -> float:
        """Seconds since the start of the attempt."""
        return round(asyncio.get_running_loop().time() - self._began, 6)

    def add(self, phase: str, began: float, ended: float, label: str = "") -> None:
        """Count a phase between two times of the event loop."""
        self.phases[phase] = self.phases.get(phase, 0.0) + ended - began
        if len(self.spans) < MOST_SPANS:
            start, seconds = round(began - self._began, 6), round(ended - began, 6)
            self.spans.append(Span(phase, start, seconds, label))


class EpisodeLog:
    """The steps of an episode as they are made, and the rounds that the agent remembers.

    A step starts with an observation. `unfinished` gives all steps at any time, the last one
    possibly without an action.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._steps: list[Step] = []
        self.rounds: list[Round] = []
        self._open: tuple[AgentObservation, Observation] | None = None
        self._response: ResponseRecord | None = None
        self._tokens = TokenLog()

    def observe(self, current: AgentObservation, observation: Observation) -> None:
        """Start a step with an observation."""
        image = observation.screenshot
        if self._steps and image is not None:
            before = self._steps[-1].observation.screenshot
            same = before is not None and before.name == image.name
            self._replace(same_as_next_screenshot=same)
        self._open, self._response = (current, observation), None

    def respond(self, response: ResponseRecord, tokens: TokenSample | None = None) -> None:
        """Record the response of the model, with its tokens."""
        if tokens is not None:
            thinks = "thinking" in response.fields
            self._tokens.add(tokens, TurnKind(thinks, tool_calls=True))
            response = msgspec.structs.replace(response, tokens=self._tokens.turns[-1])
        self._response = response

    def act(self, action: ActionRecord, timings: dict[str, float]) -> None:
        """End the step with its action."""
        step, current = self._step(action, timings)
        self._steps.append(step)
        self.rounds.append(Round(current, step))
        self._drop_old()
        self._open = None

    def amend(self, action: ActionRecord) -> None:
        """Replace the record of the latest action, to add its result."""
        self._replace(action=action)

    def unfinished(self) -> tuple[Step, ...]:
        """All steps, including one that has not ended."""
        if self._open is None:
            return tuple(self._steps)
        return (*self._steps, self._step(None, {})[0])

    def _replace(self, **more: object) -> None:
        """Change the latest step, also in the rounds."""
        self._steps[-1] = step = msgspec.structs.replace(self._steps[-1], **more)
        self.rounds[-1] = Round(self.rounds[-1].observation, step)

    def _step(
        self, action: ActionRecord | None, timings: dict[str, float]
    ) -> tuple[Step, AgentObservation]:
        if self._open is None:
            raise RuntimeError("a step ends that has not started")
        current, observation = self._open
        step = Step(
            observation=observation, response=self._response, action=action, timings=timings
        )
        return step, current

    def _drop_old(self) -> None:
        """Drop the pictures of rounds outside the window."""
        gone = len(self.rounds) - 1 - self._window
        if gone >= 0:
            old = self.rounds[gone]
            bare = msgspec.structs.replace(old.observation, picture=None, elements=(), tree=None)
            self.rounds[gone] = Round(bare, old.step)
