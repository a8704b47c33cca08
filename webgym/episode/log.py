"""The steps of an episode as they are made.

A step begins with what is seen. Whatever breaks then, the log has it: `broken` gives the steps so
far, the last of them without an action.
"""

import msgspec

from webgym.browser.contract.answers import StepAnswer
from webgym.context.sight import Round, Sight
from webgym.trajectory import ActionRecord, Image, Observation, ResponseRecord, Step


class EpisodeLog:
    """The steps, and the rounds that the agent remembers with all that was seen in them."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._steps: list[Step] = []
        self._rounds: list[Round] = []
        self._open: tuple[Sight, Observation] | None = None
        self._response: ResponseRecord | None = None

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(self._steps)

    @property
    def rounds(self) -> list[Round]:
        return self._rounds

    def see(self, sight: Sight, answer: StepAnswer, image: Image | None) -> None:
        """Begin a step with what can be seen."""
        observation = Observation(
            screenshot=image,
            page=answer.page,
            tree=answer.tree,
            incidents=answer.incidents,
            settled=answer.settled,
        )
        if self._steps and image is not None:
            before = self._steps[-1].observation.screenshot
            same = before is not None and before.name == image.name
            self._replace(same_as_next_screenshot=same)
        self._open, self._response = (sight, observation), None

    def hear(self, response: ResponseRecord) -> None:
        """Keep what the model said, whatever comes of it."""
        self._response = response

    def act(self, action: ActionRecord, timings: dict[str, float]) -> None:
        """End the step with what was done."""
        step, sight = self._step(action, timings)
        self._steps.append(step)
        self._rounds.append(Round(sight, step))
        self._forget()
        self._open = None

    def amend(self, action: ActionRecord) -> None:
        """Tell more of the latest action: what came of it."""
        self._replace(action=action)

    def broken(self) -> tuple[Step, ...]:
        """The steps, with the one that was never ended as the last."""
        if self._open is None:
            return self.steps
        return (*self._steps, self._step(None, {})[0])

    def _replace(self, **more: object) -> None:
        """Tell more of the latest step, also to who remembers it."""
        self._steps[-1] = step = msgspec.structs.replace(self._steps[-1], **more)
        self._rounds[-1] = Round(self._rounds[-1].sight, step)

    def _step(self, action: ActionRecord | None, timings: dict[str, float]) -> tuple[Step, Sight]:
        if self._open is None:
            raise RuntimeError("a step ends that was never begun")
        sight, observation = self._open
        step = Step(
            observation=observation, response=self._response, action=action, timings=timings
        )
        return step, sight

    def _forget(self) -> None:
        """Memory holds the pictures of the window, not those of the whole episode."""
        gone = len(self._rounds) - 1 - self._window
        if gone >= 0:
            old = self._rounds[gone]
            bare = msgspec.structs.replace(old.sight, picture=None, elements=(), tree=None)
            self._rounds[gone] = Round(bare, old.step)
