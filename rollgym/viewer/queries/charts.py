"""Charts of numbers: histograms with readable edges, and changes over time.

*Histograms.* Edges are multiples of 1, 2 or 5 times a power of ten; for integers they are integers.
A share (all values from 0 to 1) always has the same 20 bars. If a few values lie far above all
others, the bars cover most values, and one last bar ends at the largest. A bar holds values at or
above `from` and below `to`; the last bar includes `to`. `min` and `max` are the smallest and the
largest value in a bar: a range with these inclusive ends holds exactly the values of the bar.

*Over time.* A run is divided into equal portions of its time if at least half of the entries have a
start time (the others are then left out), else into equal portions of its records.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil, floor, fsum, isfinite, log10
from sys import float_info
from typing import Literal

import msgspec

from rollgym.viewer.queries.filter import MICROSECONDS

MOST_BINS = 30
SHARE_BINS = 20
_NARROWEST, _WIDEST = 1e-300, 1e300
"""Widths of bars beyond these cannot be computed with floats."""
_MOST = 0.99
"""The share of the values that the bars of equal width must cover."""
_FAR = 4
"""How many times farther the largest value must be for a separate last bar."""


class Bin(msgspec.Struct, frozen=True, rename={"low": "from", "high": "to"}):
    """One bar."""

    low: float
    high: float
    count: int
    min: float | None
    max: float | None


class Histogram(msgspec.Struct, frozen=True):
    """`median` and `p90` are values that occur: at rank floor(q * (count - 1)), from 0."""

    count: int
    mean: float
    min: float
    max: float
    median: float
    p90: float
    bins: tuple[Bin, ...]


def histogram(values: Iterable[float | None], *, share: bool = False) -> Histogram | None:
    """The histogram of the numbers among the values; None where there are none.

    `share` says that values are expected to be from 0 to 1; if they are, the bars are too.
    """
    numbers = sorted([value for value in values if value is not None])
    # After sorting, numbers that are not finite are at the ends.
    while numbers and not isfinite(numbers[-1]):
        numbers.pop()
    numbers = numbers[bisect_left(numbers, -float_info.max) :]
    if not numbers:
        return None
    return Histogram(
        count=len(numbers),
        mean=mean(numbers),
        min=numbers[0],
        max=numbers[-1],
        median=_quantile(numbers, 0.5),
        p90=_quantile(numbers, 0.9),
        bins=tuple(_bins(numbers, _edges(numbers, share=share))),
    )


def mean(numbers: Sequence[float]) -> float:
    """The mean of at least one finite number, of any size."""
    try:
        return fsum(numbers) / len(numbers)
    except OverflowError:
        half = fsum(number / len(numbers) / 2 for number in numbers)
        return max(min(numbers), min(2 * half, max(numbers)))  # despite rounding


def _bins(numbers: Sequence[float], edges: Sequence[float]) -> Iterable[Bin]:
    """The bars of sorted numbers, which lie within the edges."""
    begins = [0, *(bisect_left(numbers, edge) for edge in edges[1:-1]), len(numbers)]
    for (low, high), (begin, end) in zip(pairwise(edges), pairwise(begins), strict=True):
        inside = begin < end
        yield Bin(
            low,
            high,
            end - begin,
            numbers[begin] if inside else None,
            numbers[end - 1] if inside else None,
        )


def _edges(numbers: Sequence[float], *, share: bool) -> list[float]:
    least, largest = numbers[0], numbers[-1]
    if share and least >= 0 and largest <= 1:
        return [number / SHARE_BINS for number in range(SHARE_BINS + 1)]
    if least == largest:
        return [least, largest]
    usual = _quantile(numbers, _MOST)
    has_tail = usual > least and largest - least > _FAR * (usual - least)
    whole = isinstance(least, int)
    edges = _nice_edges(least, usual if has_tail else largest, whole=whole)
    if edges[-1] < largest:
        edges.append(largest)
    return edges


def _nice_edges(least: float, largest: float, *, whole: bool) -> list[float]:
    """Edges from at or below the least to at or above the largest (integers: above it)."""
    # Each end may need one more bar, and a tail another one.
    width = largest / (MOST_BINS - 3) - least / (MOST_BINS - 3)
    if not _NARROWEST < width < _WIDEST:
        return [least, largest]
    exponent = max(floor(log10(width)), 0) if whole else floor(log10(width))
    step, scale = next(
        (step, exponent + more)
        for more in (0, 1)
        for step in (1, 2, 5)
        if step * 10.0 ** (exponent + more) >= width * (1 - 1e-9)
    )
    unit = step * 10.0**scale
    first = floor(least / unit)
    last = floor(largest / unit) + 1 if whole else max(ceil(largest / unit), first + 1)
    # Division rounds, so an edge may end up above the smallest number.
    first -= _multiple(first * step, scale, whole=whole) > least
    try:
        return [_multiple(number * step, scale, whole=whole) for number in range(first, last + 1)]
    except OverflowError:  # the last edge would be larger than any float
        return [least, largest]


def _multiple(number: int, scale: int, *, whole: bool) -> float:
    """number * 10**scale, as the closest float or as an integer."""
    if scale < 0:
        return float(number / 10**-scale)
    multiple = number * int(10**scale)
    return multiple if whole else float(multiple)


def _quantile(numbers: Sequence[float], share: float) -> float:
    return numbers[floor(share * (len(numbers) - 1))]


MOST_POINTS = 60
_Outcomes = Counter[tuple[int | None, float | None]]
"""The number of entries by success and reward."""
_NAMES = {"begin": "from", "end": "to", "least": "min", "most": "max"}


class TimePoint(msgspec.Struct, frozen=True, rename=_NAMES):
    """One portion: a period in seconds since the epoch, or a range of entries counted from 1.

    A period has the rollouts that started at or after `from` and before `to`. `min` and `max` are
    the ends of the filter that selects it, by `started` or by `record`.
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
    """The portions in order, including empty ones."""

    by: Literal["time", "order"]
    points: tuple[TimePoint, ...]


def over_time(
    numbers: Sequence[int],
    started: Sequence[int | None],
    successes: Sequence[int | None],
    rewards: Sequence[float | None],
) -> OverTime:
    """For entries in the order of their `numbers`; `started` in microseconds since the epoch."""
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
) -> list[TimePoint]:
    number = min(MOST_POINTS, last - first + 1)
    width = -(-(last - first + 1) // number)
    places = [None if time is None else (time - first) // width for time in started]
    portions: list[_Outcomes] = [Counter() for _ in range((last - first) // width + 1)]
    # Most rewards are 0 or 1, so equal values are counted first.
    counts = Counter(zip(places, successes, rewards, strict=True))
    for (place, success, reward), count in counts.items():
        if place is not None:
            portions[place][success, reward] = count
    points = []
    for begin, portion in zip(range(first, last + 1, width), portions, strict=True):
        edges = (begin, begin + width, begin, begin + width - 1)
        points.append(_point(*(edge / MICROSECONDS for edge in edges), portion=portion))
    return points


def _by_order(
    numbers: Sequence[int],
    successes: Sequence[int | None],
    rewards: Sequence[float | None],
) -> list[TimePoint]:
    total = len(successes)
    number = min(MOST_POINTS, total)
    points = []
    for place in range(number):
        begin, end = place * total // number, (place + 1) * total // number
        portion = Counter(zip(successes[begin:end], rewards[begin:end], strict=True))
        edges = (begin + 1, end, numbers[begin], numbers[end - 1])
        points.append(_point(*edges, portion=portion))
    return points


def _point(begin: float, end: float, least: float, most: float, *, portion: _Outcomes) -> TimePoint:
    judged = [(count, success) for (success, _), count in portion.items() if success is not None]
    scored = [(count, reward) for (_, reward), count in portion.items() if reward is not None]
    rewarded = sum(count for count, _ in scored)
    return TimePoint(
        begin,
        end,
        least,
        most,
        rollouts=portion.total(),
        successes=sum(count * success for count, success in judged),
        judged=sum(count for count, _ in judged),
        mean_reward=sum(count * reward for count, reward in scored) / rewarded if scored else None,
    )
