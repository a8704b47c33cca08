"""One step of a trajectory: what was seen, what the model said, what was done, what it was worth.

Screenshots are files of their own, named by their content; a step only refers to them.
"""

import msgspec

from rollgym.records import NO_USAGE, Usage
from webgym.browser.contract.answers import Box, CommandFailure, Incident, PageInfo
from webgym.browser.contract.commands import InteractionMode

INVALID_URL = "invalid_url"
"""The key of the one action of a trajectory whose start page could not be opened."""
UNPARSED = "unparsed"
"""The key of a step whose reply was no action; nothing was done in the browser."""

BLOCKED = "blocked"
"""The key of the last step of an episode that was stopped before a wall."""


class Image(msgspec.Struct, frozen=True):
    """A screenshot: the name of its blob, `<sha256>.png` or another ending, and its size."""

    name: str
    media_type: str
    width: int
    height: int


class Observation(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What could be seen before the step. `tree` is the accessibility tree, where asked for."""

    screenshot: Image | None = None
    page: PageInfo
    tree: str | None = None
    incidents: tuple[Incident, ...] = ()
    settled: bool = True


class ActionRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What was done. `text` is for people; `arguments` are those of the model's call.

    `pixel` and `box` say where on the screenshot it was aimed. `problem` is what the page did not
    let happen, or what was wrong with the reply.
    """

    key: str
    arguments: dict[str, object] = {}
    text: str = ""
    pixel: tuple[int, int] | None = None
    box: Box | None = None
    problem: CommandFailure | None = None


class ResponseRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the model was asked and what it said.

    `raw_prompt` is the chat as it was sent; of an image it has the blob's name
    (`{"type": "image_url", "image_url": {"url": "blob:<name>"}}`). `fields` are the parts of the
    reply (thinking, memory, progress, intention, action), `tolerances` what the reader forgave,
    `parse_failure` why the reply is no action. Token ids and logprobs are there where the server
    gave them.
    """

    raw_prompt: tuple[dict[str, object], ...] = ()
    raw_response: str = ""
    fields: dict[str, object] = {}
    tolerances: tuple[str, ...] = ()
    parse_failure: str | None = None
    model: str = ""
    finish_reason: str | None = None
    usage: Usage = NO_USAGE
    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    seconds: float = 0.0


class RewardRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a step was worth: None where nobody judged. Only the last step of an episode earns.

    `submit` tells whether its screenshot was among those the judge saw, and why.
    """

    reward: float | None = None
    evaluation: dict[str, object] = {}
    is_blocked: bool = False
    submit: bool = False
    submission_judgment: str | None = None


class Step(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One step. `action` is None where the episode broke before it was known.

    `same_as_next_screenshot` compares with the step after it; None at the last one.
    """

    observation: Observation
    response: ResponseRecord | None = None
    action: ActionRecord | None = None
    reward: RewardRecord | None = None
    same_as_next_screenshot: bool | None = None
    timings: dict[str, float] = {}


ANSWER = "answer"


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an episode is worth. `evaluation` is for people: who judged, each criterion, and why.

    `keypoint_step_ids` are the steps whose screenshots were judged, `judgments` why each was, or
    was not, among them.
    """

    reward: float
    evaluation: dict[str, object]
    is_blocked: bool = False
    keypoint_step_ids: tuple[int, ...] = ()
    judgments: dict[int, str] = {}


class Trajectory(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything one attempt left. `task` is the row of the task file, as it was.

    `trajectory_index` and `repeat` say which of the run's rollouts it is. `session` names the
    visitor where a task's own truth is asked about it. `ending` says in a word why there is no
    further step: answer, max_steps, blocked, goback, invalid_url, or failed.
    """

    task_id: str
    task: msgspec.Raw
    trajectory_index: int = 0
    repeat: int = 0
    attempt: int = 1
    split: str = "train"
    interaction_mode: InteractionMode = "coordinates"
    max_steps: int = 0
    model: str = ""
    session: str = ""
    start_url: str = ""
    ending: str = ""
    keypoint_step_ids: tuple[int, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def answer(self) -> str | None:
        """The answer that ended it, if one did."""
        last = self.steps[-1].action if self.steps else None
        if last is None or last.key != ANSWER:
            return None
        return str(last.arguments.get("text", ""))

    @property
    def usage(self) -> Usage:
        return sum((step.response.usage for step in self.steps if step.response), NO_USAGE)

    @property
    def final_reward(self) -> RewardRecord | None:
        return self.steps[-1].reward if self.steps else None

    def judged(self, verdict: Verdict) -> "Trajectory":
        """With the verdict written into its steps: the last one earns the reward."""
        last = len(self.steps) - 1
        steps = [
            msgspec.structs.replace(
                step,
                reward=RewardRecord(
                    reward=verdict.reward if index == last else 0.0,
                    evaluation=verdict.evaluation if index == last else {},
                    is_blocked=verdict.is_blocked and index == last,
                    submit=index in verdict.keypoint_step_ids,
                    submission_judgment=verdict.judgments.get(index),
                ),
            )
            for index, step in enumerate(self.steps)
        ]
        return msgspec.structs.replace(
            self, steps=tuple(steps), keypoint_step_ids=verdict.keypoint_step_ids
        )
