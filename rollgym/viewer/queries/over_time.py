"""How rollouts went as the run went on: equal portions of its time, or of its records.

By time where at least half of the entries say when they began; the others are then left out.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from rollgym.viewer.queries.filter import MICROSECONDS

MOST_POINTS = 60


_NAMES = {"begin": "from", "end": "to", "least": "min", "most": "max"}


class Point(msgspec.Struct, frozen=True, rename=_NAMES):
    """One portion: seconds since the epoch, or which entries it has, counted from 1.

    A portion of time holds what began at or after `from` and before `to`. `min` and `max` are what
    a filter takes to show it: of `started`, or of `record`.
    """

    begin: float
    end: float
    least: float
    most: float
    rollouts: int
    successes: int
    judged: int
    mean_reward: float | None


class OverTime(msgspec.Struct, frozen=True):
    """The portions in order, those in which nothing was included."""

    by: Literal["time", "order"]
    points: tuple[Point, ...]


class _Portion:
    """What has been counted of a portion."""

    __slots__ = ("judged", "reward", "rewarded", "rollouts", "successes")

    def __init__(self) -> None:
        self.rollouts = self.successes = self.judged = self.rewarded = 0
        self.reward = 0.0

    def add(self, success: int | None, reward: float | None, count: int) -> None:
        self.rollouts += count
        if success is not None:
            self.judged += count
            self.successes += count * success
        if reward is not None:
            self.rewarded += count
            self.reward += count * reward

    def point(self, begin: float, end: float, least: float, most: float) -> Point:
        return Point(
            begin,
            end,
            least,
            most,
            self.rollouts,
            self.successes,
            self.judged,
            self.reward / self.rewarded if self.rewarded else None,
        )


def over_time(
    numbers: Sequence[int],
    started: Sequence[int | None],
    successes: Sequence[int | None],
    rewards: Sequence[float | None],
) -> OverTime:
    """Of entries in the order of their `numbers`; `started` in microseconds since the epoch."""
    times = [time for time in started if time is not None]
    if not times or 2 * len(times) < len(started):
        return OverTime("order", tuple(_by_order(numbers, successes, rewards)))
    return OverTime("time", tuple(_by_time(min(times), max(times), started, successes, rewards)))


def _by_time(
    first: int,
    last: int,
    started: Sequence[int | None],
    successes: Sequence[int | None],
    rewards: Sequence[float | None],
) -> list[Point]:
    number = min(MOST_POINTS, last - first + 1)
    width = -(-(last - first + 1) // number)
    places = [None if time is None else (time - first) // width for time in started]
    portions = [_Portion() for _ in range((last - first) // width + 1)]
    # Of a task there are few rewards, mostly 0 and 1: counting what is the same comes first.
    for (place, success, reward), count in Counter(
        zip(places, successes, rewards, strict=True)
    ).items():
        if place is not None:
            portions[place].add(success, reward, count)
    points = []
    for begin, portion in zip(range(first, last + 1, width), portions, strict=True):
        edges = (begin, begin + width, begin, begin + width - 1)
        points.append(portion.point(*(edge / MICROSECONDS for edge in edges)))
    return points


def _by_order(
    numbers: Sequence[int],
    successes: Sequence[int | None],
    rewards: Sequence[float | None],
) -> list[Point]:
    total = len(successes)
    number = min(MOST_POINTS, total)
    points = []
    for place in range(number):
        begin, end = place * total // number, (place + 1) * total // number
        portion = _Portion()
        same = Counter(zip(successes[begin:end], rewards[begin:end], strict=True))
        for (success, reward), count in same.items():
            portion.add(success, reward, count)
        points.append(portion.point(begin + 1, end, numbers[begin], numbers[end - 1]))
    return points
