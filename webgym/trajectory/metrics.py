"""The metrics of rollouts: success, steps, characters, going back, crashes and blocked pages.

A trajectory is *crashed* when it is empty, when its start page could not be opened, when an action
is missing, or when it ended early (fewer than 10 steps) without an answer and without being
blocked. Crashed trajectories count in `crashed_rate` alone. Blocked ones are counted over the rest,
and do not count in the other metrics: success (reward 1 at the last step), steps, characters, going
back.

The verdicts are counted beside these: every trajectory is solved, not solved, or failed (it has no
verdict), whatever its length. `crashed` contains all failed ones; those that it contains beyond
them ended early by their own rules, and are counted by their endings.

A `RolloutMeter` holds whole numbers only. Ratios are taken at the end, so trajectories and meters
can be combined in any order and give exactly the same numbers.
"""

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, NamedTuple, cast

import msgspec

from rollgym.records import NO_USAGE, Usage
from webgym.trajectory.records import ANSWER, INVALID_URL, SUCCESS_REWARD, Step, Trajectory

SHORT = 10
"""A trajectory with fewer steps is crashed unless it has an answer or is blocked."""
GO_BACK = "goback"

AnyTrajectory = Trajectory | Mapping[str, Any]
"""A trajectory, or its plain form from a `.pt` file."""


class RolloutMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The rates, each 0 where its denominator is 0, and the counts they are computed from.

    It also reads as a mapping of names to numbers: `metrics["success_rate"]`, `dict(metrics)`.
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


class RolloutMeter(msgspec.Struct, kw_only=True):
    """Counts trajectories. `steps`, `characters` and `gobacks` are of those neither crashed nor
    blocked. `crashed_goback` and `crashed_other` are crashed trajectories that have a verdict: the
    first ended because the agent went back again and again, the others had few steps."""

    total_trajectories: int = 0
    crashed: int = 0
    blocked: int = 0
    successes: int = 0
    steps: int = 0
    characters: int = 0
    gobacks: int = 0
    solved: int = 0
    not_solved: int = 0
    failed: int = 0
    crashed_goback: int = 0
    crashed_other: int = 0
    judge_input_tokens: int = 0
    judge_output_tokens: int = 0

    @classmethod
    def of(cls, metrics: RolloutMetrics) -> "RolloutMeter":
        """The meter with these metrics."""
        return cls(**{name: getattr(metrics, name) for name in cls.__struct_fields__})

    def add(self, trajectory: AnyTrajectory | None) -> None:
        """Count one trajectory; None is an empty one."""
        facts = _facts_of(trajectory)
        self.total_trajectories += 1
        reward = facts[-1].reward if facts else None
        is_solved = reward is not None and reward >= SUCCESS_REWARD
        self.solved += is_solved
        self.not_solved += reward is not None and not is_solved
        self.failed += reward is None
        spent = _judge_usage_of(trajectory)
        self.judge_input_tokens += spent.input_tokens
        self.judge_output_tokens += spent.output_tokens
        if _crashed(facts):
            self.crashed += 1
            if reward is not None:
                is_goback = _ending_of(trajectory) == GO_BACK
                self.crashed_goback += is_goback
                self.crashed_other += not is_goback
        elif _blocked(facts):
            self.blocked += 1
        else:
            self.successes += is_solved
            self.steps += len(facts)
            self.characters += sum(step.characters for step in facts)
            self.gobacks += sum(step.action == GO_BACK for step in facts)

    def merged(self, other: "RolloutMeter") -> "RolloutMeter":
        """The sum of two meters."""
        counts = {
            name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__
        }
        return RolloutMeter(**counts)

    @property
    def metrics(self) -> RolloutMetrics:
        whole = self.total_trajectories - self.crashed
        scored = whole - self.blocked
        return RolloutMetrics(
            success_rate=_ratio(self.successes, scored),
            avg_steps=_ratio(self.steps, scored),
            avg_chars_per_response=_ratio(self.characters, self.steps),
            goback_rate=_ratio(self.gobacks, self.steps),
            crashed_rate=_ratio(self.crashed, self.total_trajectories),
            blocked_rate=_ratio(self.blocked, whole),
            **msgspec.structs.asdict(self),
        )


def calculate_rollout_metrics(
    trajectories: Iterable[AnyTrajectory | None], earlier: RolloutMetrics | None = None
) -> RolloutMetrics:
    """The metrics of trajectories, which are read one at a time, and of `earlier` ones together.

    None stands for a failed trajectory without steps.
    """
    meter = RolloutMeter.of(earlier) if earlier is not None else RolloutMeter()
    for trajectory in trajectories:
        meter.add(trajectory)
    return meter.metrics


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


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
