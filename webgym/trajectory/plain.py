"""A trajectory in plain containers: the form that is in a `.pt`, in both directions.

The names are those that training code for web agents reads (`image_path`, `ac_tree`,
`page_metadata`, `action_string`, `answering_tokens`); the structs below are the whole form. Every
key is always there. Values are dicts, lists, texts, numbers, true, false and None, because they
have been through JSON.

A failed rollout has no reward: None at the top and at every step. It ends with a step that has no
action, or has no steps at all, so whoever counts takes it for crashed, not for a 0.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from rollgym.records import Failure, Usage
from rollgym.rollouts.fields import (
    FAILURE_CLASS,
    METADATA,
    OUTPUT,
    PARAMS,
    REWARD,
    ROLLOUT_INDEX,
    SUCCESS,
    TASK_INDEX,
)
from webgym.browser.contract.answers import Box, CommandFailure, Incident, PageInfo
from webgym.browser.contract.commands import InteractionMode
from webgym.trajectory.metrics import SUCCESS_REWARD
from webgym.trajectory.records import (
    ActionRecord,
    Image,
    Observation,
    ResponseRecord,
    RewardRecord,
    Step,
    Trajectory,
)

SCREENSHOTS = "screenshots"
"""The folder of the screenshots, in that of the experiment; `image_path` begins with it."""

OutcomeName = Literal["completed", "failed"]
PlainTrajectory = dict[str, Any]


class TrajectoryError(ValueError):
    """Something is no trajectory in its plain form."""


class _Observation(msgspec.Struct, frozen=True, kw_only=True):
    task: dict[str, Any]
    image_path: str | None = None
    ac_tree: str | None = None
    page_metadata: PageInfo
    image: Image | None = None
    incidents: tuple[Incident, ...] = ()
    settled: bool = True


class _Action(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    arguments: dict[str, object] = {}
    action_string: str = ""
    pixel: tuple[int, int] | None = None
    box: Box | None = None
    problem: CommandFailure | None = None


class _Usage(msgspec.Struct, frozen=True):
    """As `Usage`, with every number written."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


class _Response(msgspec.Struct, frozen=True, kw_only=True):
    raw_response: str = ""
    answering_tokens: dict[str, object] = {}
    raw_prompt: tuple[dict[str, object], ...] = ()
    tolerances: tuple[str, ...] = ()
    parse_failure: str | None = None
    model: str = ""
    finish_reason: str | None = None
    usage: _Usage = _Usage()
    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    seconds: float = 0.0


class _Reward(msgspec.Struct, frozen=True, kw_only=True):
    reward: float | None = None
    evaluation: dict[str, object] = {}
    is_blocked: bool = False
    submit: bool = False
    submission_judgment: str | None = None


class _Step(msgspec.Struct, frozen=True, kw_only=True):
    observation: _Observation
    action: _Action | None = None
    response: _Response | None = None
    reward: _Reward | None = None
    same_as_next_screenshot: bool | None = None
    timings: dict[str, float] = {}


class _Trajectory(msgspec.Struct, frozen=True, kw_only=True):
    task_id: str
    task: dict[str, Any]
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
    outcome: OutcomeName = "completed"
    failure: dict[str, Any] | None = None
    reward: float | None = None
    keypoint_step_ids: tuple[int, ...] = ()
    steps: tuple[_Step, ...] = ()


def to_plain(trajectory: Trajectory, reward: float | None = None) -> PlainTrajectory:
    """The plain form of a trajectory that was completed.

    `reward` is that of the outcome; without one, that of the last step.
    """
    if reward is None and trajectory.final_reward is not None:
        reward = trajectory.final_reward.reward
    task = _task(trajectory)
    steps = tuple(_step(step, task) for step in trajectory.steps)
    return _written(trajectory, task, steps, outcome="completed", reward=reward)


def failed_to_plain(trajectory: Trajectory, failure: Failure) -> PlainTrajectory:
    """The plain form of what a failed rollout left: without rewards, and broken at its end."""
    task = _task(trajectory)
    steps = [_step(msgspec.structs.replace(step, reward=None), task) for step in trajectory.steps]
    if steps and steps[-1].action is not None:
        steps.append(_Step(observation=steps[-1].observation))
    return _written(
        trajectory, task, tuple(steps), outcome="failed", failure=msgspec.to_builtins(failure)
    )


def from_plain(plain: Mapping[str, object]) -> Trajectory:
    """The trajectory of a plain form, also where another program changed it.

    Raises TrajectoryError, naming the field.
    """
    try:
        read = msgspec.convert(plain, _Trajectory)
        task = msgspec.json.encode(read.task)
    except (ValueError, TypeError, RecursionError) as error:
        raise TrajectoryError(f"this is no trajectory: {error}") from error
    return Trajectory(
        task_id=read.task_id,
        task=msgspec.Raw(task),
        trajectory_index=read.trajectory_index,
        repeat=read.repeat,
        attempt=read.attempt,
        split=read.split,
        interaction_mode=read.interaction_mode,
        max_steps=read.max_steps,
        model=read.model,
        session=read.session,
        start_url=read.start_url,
        ending=read.ending,
        keypoint_step_ids=read.keypoint_step_ids,
        steps=tuple(map(_step_of, read.steps)),
    )


def image_path(image: Image) -> str:
    """Where a screenshot is, from the folder of the experiment."""
    return f"{SCREENSHOTS}/{image.name[:2]}/{image.name}"


def _written(
    trajectory: Trajectory,
    task: dict[str, Any],
    steps: tuple[_Step, ...],
    *,
    outcome: OutcomeName,
    failure: dict[str, Any] | None = None,
    reward: float | None = None,
) -> PlainTrajectory:
    form = _Trajectory(
        task_id=trajectory.task_id,
        task=task,
        trajectory_index=trajectory.trajectory_index,
        repeat=trajectory.repeat,
        attempt=trajectory.attempt,
        split=trajectory.split,
        interaction_mode=trajectory.interaction_mode,
        max_steps=trajectory.max_steps,
        model=trajectory.model,
        session=trajectory.session,
        start_url=trajectory.start_url,
        ending=trajectory.ending,
        outcome=outcome,
        failure=failure,
        reward=reward,
        keypoint_step_ids=trajectory.keypoint_step_ids,
        steps=steps,
    )
    plain: PlainTrajectory = msgspec.json.decode(msgspec.json.encode(form))
    return plain


def _task(trajectory: Trajectory) -> dict[str, Any]:
    """The row of the task. Its numbers may be out of the range that one of the readers takes."""
    raw = bytes(trajectory.task)
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError:
        row = json.loads(raw)
        return row if isinstance(row, dict) else {}


def _step(step: Step, task: dict[str, Any]) -> _Step:
    return _Step(
        observation=_observation(step.observation, task),
        action=_action(step.action) if step.action else None,
        response=_response(step.response) if step.response else None,
        reward=_Reward(**msgspec.structs.asdict(step.reward)) if step.reward else None,
        same_as_next_screenshot=step.same_as_next_screenshot,
        timings=step.timings,
    )


def _observation(seen: Observation, task: dict[str, Any]) -> _Observation:
    return _Observation(
        task=task,
        image_path=image_path(seen.screenshot) if seen.screenshot else None,
        ac_tree=seen.tree,
        page_metadata=seen.page,
        image=seen.screenshot,
        incidents=seen.incidents,
        settled=seen.settled,
    )


def _action(action: ActionRecord) -> _Action:
    fields = msgspec.structs.asdict(action)
    return _Action(action_string=fields.pop("text"), **fields)


def _response(response: ResponseRecord) -> _Response:
    fields = msgspec.structs.asdict(response)
    usage = _Usage(**msgspec.structs.asdict(fields.pop("usage")))
    return _Response(answering_tokens=fields.pop("fields"), usage=usage, **fields)


def _step_of(step: _Step) -> Step:
    seen, reward = step.observation, step.reward
    return Step(
        observation=Observation(
            screenshot=seen.image,
            page=seen.page_metadata,
            tree=seen.ac_tree,
            incidents=seen.incidents,
            settled=seen.settled,
        ),
        action=_action_of(step.action) if step.action else None,
        response=_response_of(step.response) if step.response else None,
        reward=RewardRecord(**msgspec.structs.asdict(reward)) if reward else None,
        same_as_next_screenshot=step.same_as_next_screenshot,
        timings=step.timings,
    )


def _action_of(action: _Action) -> ActionRecord:
    fields = msgspec.structs.asdict(action)
    return ActionRecord(text=fields.pop("action_string"), **fields)


def _response_of(response: _Response) -> ResponseRecord:
    fields = msgspec.structs.asdict(response)
    usage = Usage(**msgspec.structs.asdict(fields.pop("usage")))
    return ResponseRecord(fields=fields.pop("answering_tokens"), usage=usage, **fields)


_FACTS = (
    "task_id", "split", "attempt", "model", "interaction_mode", "max_steps", "ending", "outcome",
    "start_url", "session", "keypoint_step_ids",
)  # fmt: skip


def rollout_row(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a trajectory in its plain form. A failed one has its failure, and no reward."""
    steps = plain.get("steps") or []
    task = plain.get("task") or {}
    row: dict[str, Any] = {
        PARAMS: {"input": [{"role": "user", "content": str(task.get("task_name", ""))}]},
        OUTPUT: [turn for number, step in enumerate(steps, 1) for turn in _turns(number, step)],
        REWARD: plain.get("reward"),
        SUCCESS: None if plain.get("reward") is None else plain["reward"] == SUCCESS_REWARD,
        METADATA: {name: plain.get(name) for name in _FACTS} | {"steps": len(steps)},
        TASK_INDEX: plain.get("trajectory_index"),
        ROLLOUT_INDEX: plain.get("repeat"),
        "task": task,
        "evaluation": _evaluation(steps),
    }
    if (failure := plain.get("failure")) is not None:
        row |= {"failure": failure, FAILURE_CLASS: failure.get("kind")}
    return row


def _turns(number: int, step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "user", "content": list(_sight(number, step["observation"]))}
    response, action = step.get("response"), step.get("action")
    if response is None and action is None:
        return
    said: dict[str, Any] = {"role": "assistant", "content": (response or {}).get("raw_response")}
    if action is not None:
        call = {"name": action["key"], "arguments": action["arguments"]}
        said["tool_calls"] = [{"id": f"step-{number}", "type": "function", "function": call}]
    yield said
    if action is not None and (problem := action.get("problem")) is not None:
        content = f"{problem['type']}: {problem['message']}"
        yield {"role": "tool", "tool_call_id": f"step-{number}", "content": content}


def _sight(number: int, observation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    page = observation["page_metadata"]
    yield {"type": "text", "text": f"Step {number}: {page['title']} ({page['url']})"}
    if observation.get("image_path"):
        yield {"type": "image_url", "image_url": {"url": observation["image_path"]}}


def _evaluation(steps: list[Mapping[str, Any]]) -> object:
    """What the judge said, at the last step."""
    reward = steps[-1].get("reward") if steps else None
    return reward.get("evaluation") if reward else None
