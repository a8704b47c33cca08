"""A whole episode, and the verdict on it."""

import msgspec

from rollgym.records import NO_USAGE, Usage
from webgym.browser.contract.commands import InteractionMode
from webgym.trajectory.step import RewardRecord, Step

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
