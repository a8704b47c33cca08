"""The metrics of rollouts: success, steps, characters, going back, crashes and blocked pages.

A trajectory is *crashed* when it is empty, when its start page could not be opened, when an action
is missing, or when it ended early (fewer than 10 steps) without an answer and without being
blocked. Crashed trajectories count in `crashed_rate` alone. Blocked ones are counted over the rest,
and do not count in the other metrics: success (reward 1 at the last step), steps, characters, going
back.

The verdicts are counted beside these: every trajectory is solved, not solved, or failed (it has no
verdict), whatever its length. `crashed` contains all failed ones; those that it contains beyond
them ended early by their own rules, and are counted by their endings.

A *group* is the rollouts of one task, for trainers that compare them with each other (GRPO). It is
complete when every rollout of its task is completed. Only complete groups are counted by their
verdicts: all solved, none solved, or *mixed*, which are those that a trainer learns from.

Counts are added as whole numbers, and the rates are taken of the sums. So trajectories, and metrics
of several parts, can be combined in any order and give exactly the same numbers.
"""

from collections import Counter
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from functools import reduce
from operator import add
from typing import Any, NamedTuple, cast

import msgspec

from rollgym.records import NO_USAGE, Usage
from webgym.trajectory.records import ANSWER, INVALID_URL, SUCCESS_REWARD, Step, Trajectory


class TaskGroupCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The groups of an iteration, with `rollouts_per_task` rollouts each."""

    rollouts_per_task: int
    expected: int
    complete: int = 0
    all_solved: int = 0
    none_solved: int = 0
    mixed: int = 0

    def plus(self, other: "TaskGroupCounts") -> "TaskGroupCounts":
        """The groups of two ranks together."""
        added = {name: getattr(self, name) + getattr(other, name) for name in _ADDED}
        return msgspec.structs.replace(self, **added)


_ADDED = ("expected", "complete", "all_solved", "none_solved", "mixed")


def total_groups(parts: list[TaskGroupCounts]) -> TaskGroupCounts | None:
    """The groups of several ranks together; None without any."""
    return reduce(TaskGroupCounts.plus, parts) if parts else None


class GroupMeter:
    """Counts the completed and the solved rollouts of each task."""

    def __init__(self) -> None:
        self._completed: Counter[int] = Counter()
        self._solved: Counter[int] = Counter()

    def add(self, task: int, *, is_solved: bool) -> None:
        """Count a completed rollout."""
        self._completed[task] += 1
        self._solved[task] += is_solved

    def counts(self, size: int, expected: int) -> TaskGroupCounts:
        """The counts for `expected` groups of `size` rollouts."""
        complete = [task for task, count in self._completed.items() if count >= size]
        whole = sum(self._solved[task] >= size for task in complete)
        none = sum(not self._solved[task] for task in complete)
        return TaskGroupCounts(
            rollouts_per_task=size,
            expected=expected,
            complete=len(complete),
            all_solved=whole,
            none_solved=none,
            mixed=len(complete) - whole - none,
        )


SHORT = 10
"""A trajectory with fewer steps is crashed unless it has an answer or is blocked."""
GO_BACK = "goback"

AnyTrajectory = Trajectory | Mapping[str, Any]
"""A trajectory, or its plain form from a `.pt` file."""


class RolloutMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The rates, each 0 where its denominator is 0, and the counts they are computed from.

    `steps`, `characters` and `gobacks` are of trajectories neither crashed nor blocked.
    `crashed_goback` and `crashed_other` are crashed trajectories that have a verdict: the first
    ended because the agent went back again and again, the others had few steps.

    It also reads as a mapping of names to numbers: `metrics["success_rate"]`, `dict(metrics)`. The
    sum of two are the metrics of their trajectories together.
    """

    success_rate: float
    avg_steps: float
    avg_chars_per_response: float
    goback_rate: float
    crashed_rate: float
    blocked_rate: float
    total_trajectories: int
    crashed: int
    blocked: int
    successes: int
    steps: int
    characters: int
    gobacks: int
    solved: int = 0
    not_solved: int = 0
    failed: int = 0
    crashed_goback: int = 0
    crashed_other: int = 0
    judge_input_tokens: int = 0
    judge_output_tokens: int = 0

    def __add__(self, other: "RolloutMetrics") -> "RolloutMetrics":
        return _with_rates({name: getattr(self, name) + getattr(other, name) for name in _COUNTS})

    def keys(self) -> KeysView[str]:
        return msgspec.structs.asdict(self).keys()

    def values(self) -> ValuesView[float]:
        return msgspec.structs.asdict(self).values()

    def items(self) -> ItemsView[str, float]:
        return msgspec.structs.asdict(self).items()

    def get(self, name: str, default: float | None = None) -> float | None:
        return msgspec.structs.asdict(self).get(name, default)

    def __getitem__(self, name: str) -> float:
        return cast("float", msgspec.structs.asdict(self)[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.__struct_fields__)

    def __len__(self) -> int:
        return len(self.__struct_fields__)

    def __contains__(self, name: object) -> bool:
        return name in self.__struct_fields__


Mapping.register(RolloutMetrics)
_COUNTS = tuple(each.name for each in msgspec.structs.fields(RolloutMetrics) if each.type is int)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _with_rates(counts: Mapping[str, int]) -> RolloutMetrics:
    total, steps = counts["total_trajectories"], counts["steps"]
    whole = total - counts["crashed"]
    scored = whole - counts["blocked"]
    return RolloutMetrics(
        success_rate=_ratio(counts["successes"], scored),
        avg_steps=_ratio(steps, scored),
        avg_chars_per_response=_ratio(counts["characters"], steps),
        goback_rate=_ratio(counts["gobacks"], steps),
        crashed_rate=_ratio(counts["crashed"], total),
        blocked_rate=_ratio(counts["blocked"], whole),
        **counts,
    )


def metrics_of(trajectory: AnyTrajectory | None) -> RolloutMetrics:
    """The metrics of one trajectory; None is an empty one."""
    facts = _facts_of(trajectory)
    reward = facts[-1].reward if facts else None
    is_solved = reward is not None and reward >= SUCCESS_REWARD
    is_crashed = _crashed(facts)
    is_blocked = not is_crashed and _blocked(facts)
    counted = [] if is_crashed or is_blocked else facts
    is_goback = _ending_of(trajectory) == GO_BACK
    spent = _judge_usage_of(trajectory)
    return _with_rates(
        {
            "total_trajectories": 1,
            "crashed": int(is_crashed),
            "blocked": int(is_blocked),
            "successes": int(is_solved and bool(counted)),
            "steps": len(counted),
            "characters": sum(step.characters for step in counted),
            "gobacks": sum(step.action == GO_BACK for step in counted),
            "solved": int(is_solved),
            "not_solved": int(reward is not None and not is_solved),
            "failed": int(reward is None),
            "crashed_goback": int(is_crashed and reward is not None and is_goback),
            "crashed_other": int(is_crashed and reward is not None and not is_goback),
            "judge_input_tokens": spent.input_tokens,
            "judge_output_tokens": spent.output_tokens,
        }
    )


NO_METRICS = _with_rates(dict.fromkeys(_COUNTS, 0))
"""The metrics of no trajectories."""


def calculate_rollout_metrics(
    trajectories: Iterable[AnyTrajectory | None], earlier: RolloutMetrics | None = None
) -> RolloutMetrics:
    """The metrics of trajectories, which are read one at a time, and of `earlier` ones together.

    None stands for a failed trajectory without steps.
    """
    start = NO_METRICS if earlier is None else earlier
    return reduce(add, map(metrics_of, trajectories), start)


class _StepFacts(NamedTuple):
    """The parts of a step that metrics use. `action` is its key, or None."""

    action: str | None
    characters: int
    reward: float | None
    blocked: bool


def _facts_of(trajectory: AnyTrajectory | None) -> list[_StepFacts]:
    match trajectory:
        case None:
            return []
        case Trajectory():
            return [_step_facts(step) for step in trajectory.steps]
        case _:
            return list(_plain_facts(trajectory))


def _ending_of(trajectory: AnyTrajectory | None) -> object:
    if trajectory is None or isinstance(trajectory, Trajectory):
        return trajectory and trajectory.ending
    return trajectory.get("ending")


def _judge_usage_of(trajectory: AnyTrajectory | None) -> Usage:
    if trajectory is None or isinstance(trajectory, Trajectory):
        return trajectory.judge_usage if trajectory else NO_USAGE
    return msgspec.convert(trajectory.get("judge_usage") or {}, Usage)


def _step_facts(step: Step) -> _StepFacts:
    return _StepFacts(
        step.action.key if step.action else None,
        len(step.response.raw_response) if step.response else 0,
        step.reward.reward if step.reward else None,
        step.reward.is_blocked if step.reward else False,
    )


def _plain_facts(trajectory: Mapping[str, Any]) -> Iterator[_StepFacts]:
    for step in trajectory.get("steps") or ():
        action, response, reward = (
            step.get(part) or {} for part in ("action", "response", "reward")
        )
        yield _StepFacts(
            action.get("key"),
            len(response.get("raw_response") or ""),
            reward.get("reward"),
            bool(reward.get("is_blocked")),
        )


def _crashed(facts: list[_StepFacts]) -> bool:
    if not facts or facts[0].action == INVALID_URL:
        return True
    if any(step.action is None for step in facts):
        return True
    return len(facts) < SHORT and facts[-1].action != ANSWER and not _blocked(facts)


def _blocked(facts: list[_StepFacts]) -> bool:
    return any(step.blocked for step in facts)
