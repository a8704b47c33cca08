"""The records of a trajectory: its steps (observation, response, action, reward) and its verdict.

Screenshots are separate files, named by their content; a step only refers to them.
"""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from rollgym.records import NO_USAGE, ModelRole, ModelUse, ModelUses, Usage
from rollgym.records.tokens import TokenTurn
from rollgym.records.version import PolicyTurn, VersionPart
from webgym.browser.contract.answers import Box, CommandFailure, Incident, PageInfo
from webgym.browser.contract.commands import InteractionMode

INVALID_URL = "invalid_url"
"""The key of the only action of a trajectory whose start page could not be opened."""
UNPARSED = "unparsed"
"""The key of a step whose reply could not be parsed; nothing was done in the browser."""
BLOCKED = "blocked"
"""The key of the last step of an episode that ended because the site blocked the agent."""
NO_BROWSER = "no_browser"
"""The ending of an attempt that never had a browser."""
MAX_STEPS = "max_steps"
"""The ending of an episode that used all its steps."""
TASK_OVER = "task_over"
"""The ending of an episode whose task was over before the agent gave an answer."""


class Image(msgspec.Struct, frozen=True):
    """A screenshot: its file name, `<sha256>.png` or another extension, and its size."""

    name: str
    media_type: str
    width: int
    height: int


class StoredFile(msgspec.Struct, frozen=True):
    """A file that a page downloaded. `blob` is its name in the folder of the screenshots."""

    name: str
    url: str
    blob: str
    size: int


class Observation(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The observation before a step. `tree` is the accessibility tree, where it is kept."""

    screenshot: Image | None = None
    page: PageInfo
    tree: str | None = None
    incidents: tuple[Incident, ...] = ()
    downloads: tuple[StoredFile, ...] = ()
    settled: bool = True


class ActionRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The action of a step. `text` is for people; `arguments` are those of the model's call.

    `pixel` and `box` are the target on the screenshot, `to_pixel` the end of a drag. `problem` says
    why the page prevented the action, or why the reply could not be parsed.
    """

    key: str
    arguments: dict[str, object] = {}
    text: str = ""
    pixel: tuple[int, int] | None = None
    box: Box | None = None
    to_pixel: tuple[int, int] | None = None
    problem: CommandFailure | None = None


class ResponseRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The prompt of a step and the model's reply.

    `raw_prompt` is the chat as it was sent, with the file names of images
    (`{"type": "image_url", "image_url": {"url": "blob:<name>"}}`). `fields` are the parts of the
    reply (thinking, memory, progress, intention, action), `tolerances` the deviations that the
    parser accepted, `parse_failure` why there is no action. `tokens` are present where the server
    returned them (`rollgym.records.tokens`); the turns are the responses that have some, in order.
    Records of earlier versions have `prompt_token_ids`, `token_ids` and `logprobs` instead.
    `queued` is the part of `seconds` that the call waited for a slot, `first_token` the time until
    the first token where the server reports it. `start` is when the call began, in seconds since
    the start of the attempt. `version` is the policy version that wrote the reply, "" if unknown;
    where it changed, `version_parts` has all of them (`rollgym.records.version`).
    """

    raw_prompt: tuple[dict[str, object], ...] = ()
    raw_response: str = ""
    fields: dict[str, object] = {}
    tolerances: tuple[str, ...] = ()
    parse_failure: str | None = None
    model: str = ""
    finish_reason: str | None = None
    usage: Usage = NO_USAGE
    tokens: TokenTurn | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    seconds: float = 0.0
    queued: float = 0.0
    first_token: float | None = None
    start: float | None = None
    version: str = ""
    version_parts: tuple[VersionPart, ...] = ()


class RewardRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The reward of a step: None without a verdict. Only the last step of an episode earns one.

    `step_reward` is what a verifier gave this step besides; None where it gave none. `submit` says
    whether the judge saw its screenshot, `submission_judgment` why.
    """

    reward: float | None = None
    step_reward: float | None = None
    evaluation: dict[str, object] = {}
    is_blocked: bool = False
    submit: bool = False
    submission_judgment: str | None = None


class Step(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One step. `action` is None where the episode failed before it was known.

    `same_as_next_screenshot` compares with the next step; None at the last one.
    """

    observation: Observation
    response: ResponseRecord | None = None
    action: ActionRecord | None = None
    reward: RewardRecord | None = None
    same_as_next_screenshot: bool | None = None
    timings: dict[str, float] = {}


ANSWER = "answer"
SUCCESS_REWARD = 1.0
"""An episode with this reward, or a higher one, is solved."""


def task_over(reason: str) -> ActionRecord:
    """The record of a last step that stands for an answer which the agent did not give."""
    return ActionRecord(key=ANSWER, arguments={"text": ""}, text=f"the task is over: {reason}")


class EpisodeVerdict(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The score of an episode. `evaluation` is for people: who judged, each criterion, and why.

    `keypoint_step_ids` are the steps whose screenshots were judged; `judgments` says of each step
    why it is one of them or not. `step_rewards` has a number for each step, or nothing.
    """

    reward: float
    evaluation: dict[str, object]
    is_blocked: bool = False
    keypoint_step_ids: tuple[int, ...] = ()
    judgments: dict[int, str] = {}
    step_rewards: tuple[float, ...] = ()

    @property
    def is_solved(self) -> bool:
        return self.reward >= SUCCESS_REWARD


class Trajectory(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything that one attempt recorded. `task` is the row of the task file, unchanged.

    `trajectory_index` and `repeat` identify the rollout in its run. `session` names the visitor to
    the task's own check. `ending` says why there is no further step: answer, task_over, max_steps,
    blocked, goback, invalid_url, no_browser, or failed. `judge_usage` are the tokens of the judge.
    `final_page` is the page after the last action, where no step observed it.
    `recordings` are the HAR and the video of the session: files beside the screenshots.
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
    judge_usage: Usage = NO_USAGE
    final_page: Observation | None = None
    recordings: dict[str, str] = {}
    steps: tuple[Step, ...] = ()

    @property
    def answer(self) -> str | None:
        """The answer that ended the episode, if there is one."""
        last = self.steps[-1].action if self.steps else None
        if last is None or last.key != ANSWER:
            return None
        return str(last.arguments.get("text", ""))

    @property
    def row(self) -> dict[str, Any]:
        """The row of the task, decoded."""
        return dict(json.loads(bytes(self.task)))

    @property
    def usage(self) -> Usage:
        return sum((step.response.usage for step in self.steps if step.response), NO_USAGE)

    @property
    def model_uses(self) -> ModelUses:
        """The calls of the model that acted."""
        uses = ModelUses()
        for step in self.steps:
            if (said := step.response) is not None:
                uses.add(
                    ModelUse.one(
                        said.model,
                        ModelRole.POLICY,
                        said.usage,
                        seconds=said.seconds,
                        queued=said.queued,
                        first_token=said.first_token,
                    )
                )
        return uses

    @property
    def policy_turns(self) -> tuple[PolicyTurn, ...]:
        """The turns of the model that acted."""
        return tuple(
            PolicyTurn(
                start=said.start,
                seconds=round(said.seconds, 6),
                version=said.version,
                parts=said.version_parts,
            )
            for step in self.steps
            if (said := step.response) is not None
        )

    def with_versions(self, turns: Sequence[PolicyTurn]) -> "Trajectory":
        """The same trajectory with the versions of these turns, those of its outcome."""
        if turns == self.policy_turns or len(turns) != len(self.policy_turns):
            return self
        remaining = iter(turns)
        steps = tuple(
            step if step.response is None else _with_version(step, step.response, next(remaining))
            for step in self.steps
        )
        return msgspec.structs.replace(self, steps=steps)

    @property
    def final_reward(self) -> RewardRecord | None:
        return self.steps[-1].reward if self.steps else None

    def judged(self, verdict: EpisodeVerdict) -> "Trajectory":
        """The same trajectory with the verdict in its steps: the last one earns the reward.

        A solved trajectory ends with an answer; where the agent gave none, a step is added.
        """
        given, final_page = self.steps, self.final_page
        if verdict.is_solved and not verdict.is_blocked and given and self.answer is None:
            seen = final_page or given[-1].observation
            given = (*given, Step(observation=seen, action=task_over("it was solved")))
            final_page = None
        last = len(given) - 1
        steps = [
            msgspec.structs.replace(
                step,
                reward=RewardRecord(
                    reward=verdict.reward if index == last else 0.0,
                    step_reward=dict(enumerate(verdict.step_rewards)).get(index),
                    evaluation=verdict.evaluation if index == last else {},
                    is_blocked=verdict.is_blocked and index == last,
                    submit=index in verdict.keypoint_step_ids,
                    submission_judgment=verdict.judgments.get(index),
                ),
            )
            for index, step in enumerate(given)
        ]
        return msgspec.structs.replace(
            self,
            steps=tuple(steps),
            final_page=final_page,
            keypoint_step_ids=verdict.keypoint_step_ids,
        )


def _with_version(step: Step, response: ResponseRecord, turn: PolicyTurn) -> Step:
    labelled = msgspec.structs.replace(response, version=turn.version, version_parts=turn.parts)
    return msgspec.structs.replace(step, response=labelled)
