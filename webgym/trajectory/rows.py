"""Trajectories as rows of a file of rollouts, which the viewer opens and other tools read.

The task is the prompt. Each step is two turns: what could be seen, with the path of the screenshot,
and what the model said, with the action that was taken as its tool call.
"""

from collections.abc import Iterator, Mapping
from typing import Any

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
from webgym.trajectory.metrics import SUCCESS_REWARD

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
