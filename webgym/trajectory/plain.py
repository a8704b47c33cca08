"""A trajectory in plain containers: the form in a `.pt` file, and as a row of a rollouts file.

*The `.pt` form* has the names that training code for web agents reads (`image_path`, `ac_tree`,
`page_metadata`, `action_string`, `answering_tokens`). It has every field of the records, under its
own name or the name in `_NAMES`, also where the value is the default. Values are dicts, lists,
texts, numbers, true, false and None, because they have been through JSON.

A failed rollout has no reward: None at the top and at every step. It ends with a step without an
action, or has no steps at all, so metrics count it as crashed, not as reward 0.

*A row* is for the viewer and other tools. The task is the prompt. Each step is two turns: the
observation, with the path of the screenshot, and the model's reply, with the action as a tool call.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import fields

from rollgym.records import Failure, Usage
from rollgym.rollouts.rows import (
    FAILURE_CLASS,
    METADATA,
    OUTPUT,
    PARAMS,
    REWARD,
    ROLLOUT_INDEX,
    SUCCESS,
    TASK_INDEX,
)
from webgym.trajectory.records import (
    SUCCESS_REWARD,
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

PlainTrajectory = dict[str, Any]

_NAMES: dict[type, dict[str, str]] = {
    Trajectory: {},
    Step: {},
    Observation: {"screenshot": "image", "page": "page_metadata", "tree": "ac_tree"},
    ActionRecord: {"text": "action_string"},
    ResponseRecord: {"fields": "answering_tokens"},
    RewardRecord: {},
    Usage: {},
}
"""The records of a trajectory, and the names of fields that differ in the plain form."""
_FIELDS = {
    record: tuple((field.name, names.get(field.name, field.name)) for field in fields(record))
    for record, names in _NAMES.items()
}
"""The name of every field in the record and in the plain form."""


class TrajectoryError(ValueError):
    """A value is not a trajectory in its plain form."""


def to_plain(trajectory: Trajectory, reward: float | None = None) -> PlainTrajectory:
    """The plain form of a completed trajectory.

    `reward` is the reward of the outcome; without it, that of the last step.
    """
    if reward is None and trajectory.final_reward is not None:
        reward = trajectory.final_reward.reward
    return _to_plain(trajectory, outcome="completed", reward=reward)


def failed_to_plain(trajectory: Trajectory, failure: Failure) -> PlainTrajectory:
    """The plain form of a failed trajectory: without rewards, and with a last step that broke."""
    steps = [msgspec.structs.replace(step, reward=None) for step in trajectory.steps]
    if steps and steps[-1].action is not None:
        steps.append(Step(observation=steps[-1].observation))
    partial = msgspec.structs.replace(trajectory, steps=tuple(steps))
    return _to_plain(partial, outcome="failed", failure=msgspec.to_builtins(failure))


def from_plain(plain: Mapping[str, object]) -> Trajectory:
    """The trajectory of a plain form, also where another program changed it.

    Raises TrajectoryError, naming the field.
    """
    try:
        task = msgspec.json.encode(msgspec.convert(plain.get("task"), dict[str, Any]))
        named = {**plain, "task": msgspec.Raw(task)}
        if isinstance(steps := plain.get("steps"), list | tuple):
            named["steps"] = [_named(step) for step in steps]
        if isinstance(final := plain.get("final_page"), Mapping):
            named["final_page"] = _own_names(final, Observation)
        return msgspec.convert(named, Trajectory)
    except (ValueError, TypeError, RecursionError) as error:
        raise TrajectoryError(f"this is not a trajectory: {error}") from error


def image_path(image: Image) -> str:
    """The path of a screenshot in the folder of the experiment."""
    return f"{SCREENSHOTS}/{image.name[:2]}/{image.name}"


def _to_plain(
    trajectory: Trajectory,
    *,
    outcome: Literal["completed", "failed"],
    failure: dict[str, Any] | None = None,
    reward: float | None = None,
) -> PlainTrajectory:
    task = _task(trajectory)
    steps = [_fields(step) for step in trajectory.steps]
    whole = _fields(trajectory) | {
        "task": task,
        "steps": steps,
        "outcome": outcome,
        "failure": failure,
        "reward": reward,
    }
    for step, record in zip(steps, trajectory.steps, strict=True):
        image = record.observation.screenshot
        step["observation"] |= {"task": task, "image_path": image_path(image) if image else None}
    plain: PlainTrajectory = msgspec.json.decode(msgspec.json.encode(whole))
    return plain


def _fields(record: object) -> dict[str, Any]:
    """Every field of a record by its plain name; values that are not records stay as they are."""
    return {
        plain: _fields(value) if type(value := getattr(record, name)) in _FIELDS else value
        for name, plain in _FIELDS[type(record)]
    }


def _named(step: Mapping[str, Any]) -> dict[str, Any]:
    """A plain step with the names that the records have."""
    named = {**step}
    parts = {"observation": Observation, "action": ActionRecord, "response": ResponseRecord}
    for part, record in parts.items():
        if isinstance(given := step.get(part), Mapping):
            named[part] = _own_names(given, record)
    return named


def _own_names(plain: Mapping[str, Any], record: type) -> dict[str, Any]:
    own = {plain_name: name for name, plain_name in _NAMES[record].items()}
    return {own.get(name, name): value for name, value in plain.items()}


def _task(trajectory: Trajectory) -> dict[str, Any]:
    """The row of the task. Its numbers may exceed the range that msgspec reads."""
    raw = bytes(trajectory.task)
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError:
        row = json.loads(raw)
        return row if isinstance(row, dict) else {}


_FACTS = (
    "task_id", "split", "attempt", "model", "interaction_mode", "max_steps", "ending", "outcome",
    "start_url", "session", "keypoint_step_ids",
)  # fmt: skip


def rollout_row(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a plain trajectory. A failed one has its failure and no reward."""
    steps = plain.get("steps") or []
    task = plain.get("task") or {}
    row: dict[str, Any] = {
        PARAMS: {"input": [{"role": "user", "content": str(task.get("task_name", ""))}]},
        OUTPUT: [turn for number, step in enumerate(steps, 1) for turn in _turns(number, step)],
        REWARD: plain.get("reward"),
        SUCCESS: None if plain.get("reward") is None else plain["reward"] >= SUCCESS_REWARD,
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
    yield {"role": "user", "content": list(_observation_parts(number, step["observation"]))}
    response, action = step.get("response"), step.get("action")
    if response is None and action is None:
        return
    reply: dict[str, Any] = {"role": "assistant", "content": (response or {}).get("raw_response")}
    if action is not None:
        call = {"name": action["key"], "arguments": action["arguments"]}
        reply["tool_calls"] = [{"id": f"step-{number}", "type": "function", "function": call}]
    yield reply
    if action is not None and (problem := action.get("problem")) is not None:
        content = f"{problem['type']}: {problem['message']}"
        yield {"role": "tool", "tool_call_id": f"step-{number}", "content": content}


def _observation_parts(number: int, observation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    page = observation["page_metadata"]
    yield {"type": "text", "text": f"Step {number}: {page['title']} ({page['url']})"}
    if observation.get("image_path"):
        yield {"type": "image_url", "image_url": {"url": observation["image_path"]}}


def _evaluation(steps: list[Mapping[str, Any]]) -> object:
    """The evaluation of the last step."""
    reward = steps[-1].get("reward") if steps else None
    return reward.get("evaluation") if reward else None
