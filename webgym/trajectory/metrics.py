"""The numbers of a rollout: success, steps, characters, going back, crashes, blocked pages.

A trajectory is *crashed* when it is empty, when its start page could not be opened, when an action
of it is missing, or when it ended early (fewer than 10 steps) with neither an answer nor a blocked
page. Crashed ones count in `crashed_rate` alone. Blocked ones are counted over the rest, and left
out of what remains: success (reward 1 at the last step), steps, characters and going back.

A `RolloutMeter` holds whole numbers only. Ratios are taken at the end, so trajectories and meters
can be put together in any order and give the same numbers to the last bit.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from webgym.trajectory.records import ANSWER, INVALID_URL, Step, Trajectory

SHORT = 10
"""A trajectory of fewer steps has to say why it ended."""
SUCCESS_REWARD = 1
GO_BACK = "goback"

AnyTrajectory = Trajectory | Mapping[str, Any]
"""A trajectory, or its plain form as it is in a `.pt`."""


class RolloutMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The rates, each 0 where there is nothing to divide by, and the counts they are made of."""

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


class RolloutMeter(msgspec.Struct, kw_only=True):
    """Counts trajectories. `steps`, `characters` and `gobacks` are of those neither crashed nor
    blocked."""

    total: int = 0
    crashed: int = 0
    blocked: int = 0
    successes: int = 0
    steps: int = 0
    characters: int = 0
    gobacks: int = 0

    @classmethod
    def of(cls, metrics: RolloutMetrics) -> "RolloutMeter":
        """The meter that gave these numbers."""
        return cls(
            total=metrics.total_trajectories,
            crashed=metrics.crashed,
            blocked=metrics.blocked,
            successes=metrics.successes,
            steps=metrics.steps,
            characters=metrics.characters,
            gobacks=metrics.gobacks,
        )

    def add(self, trajectory: AnyTrajectory | None) -> None:
        """Count one more; None is a trajectory of which there is nothing."""
        looks = _looks(trajectory)
        self.total += 1
        if _crashed(looks):
            self.crashed += 1
        elif _blocked(looks):
            self.blocked += 1
        else:
            self.successes += looks[-1].reward == SUCCESS_REWARD
            self.steps += len(looks)
            self.characters += sum(look.characters for look in looks)
            self.gobacks += sum(look.action == GO_BACK for look in looks)

    def merged(self, other: "RolloutMeter") -> "RolloutMeter":
        """The meter of what both have counted."""
        counts = {
            name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__
        }
        return RolloutMeter(**counts)

    @property
    def metrics(self) -> RolloutMetrics:
        whole = self.total - self.crashed
        scored = whole - self.blocked
        return RolloutMetrics(
            success_rate=_ratio(self.successes, scored),
            avg_steps=_ratio(self.steps, scored),
            avg_chars_per_response=_ratio(self.characters, self.steps),
            goback_rate=_ratio(self.gobacks, self.steps),
            crashed_rate=_ratio(self.crashed, self.total),
            blocked_rate=_ratio(self.blocked, whole),
            total_trajectories=self.total,
            crashed=self.crashed,
            blocked=self.blocked,
            successes=self.successes,
            steps=self.steps,
            characters=self.characters,
            gobacks=self.gobacks,
        )


def is_crashed(trajectory: AnyTrajectory | None) -> bool:
    """Whether a trajectory broke; see above for when it did."""
    return _crashed(_looks(trajectory))


def calculate_rollout_metrics(trajectories: Iterable[AnyTrajectory | None]) -> RolloutMetrics:
    """The numbers of trajectories, which are looked at one by one."""
    meter = RolloutMeter()
    for trajectory in trajectories:
        meter.add(trajectory)
    return meter.metrics


class _Look(NamedTuple):
    """What counts of a step. `action` is its key, None where there is none."""

    action: str | None
    characters: int
    reward: float | None
    blocked: bool


def _looks(trajectory: AnyTrajectory | None) -> list[_Look]:
    match trajectory:
        case None:
            return []
        case Trajectory():
            return [_look(step) for step in trajectory.steps]
        case _:
            return list(_plain_looks(trajectory))


def _look(step: Step) -> _Look:
    return _Look(
        step.action.key if step.action else None,
        len(step.response.raw_response) if step.response else 0,
        step.reward.reward if step.reward else None,
        step.reward.is_blocked if step.reward else False,
    )


def _plain_looks(trajectory: Mapping[str, Any]) -> Iterator[_Look]:
    for step in trajectory.get("steps") or ():
        action, response, reward = (
            step.get(part) or {} for part in ("action", "response", "reward")
        )
        yield _Look(
            action.get("key"),
            len(response.get("raw_response") or ""),
            reward.get("reward"),
            bool(reward.get("is_blocked")),
        )


def _crashed(looks: list[_Look]) -> bool:
    if not looks or looks[0].action == INVALID_URL:
        return True
    if any(look.action is None for look in looks):
        return True
    return len(looks) < SHORT and looks[-1].action != ANSWER and not _blocked(looks)


def _blocked(looks: list[_Look]) -> bool:
    return any(look.blocked for look in looks)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
