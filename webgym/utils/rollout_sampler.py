"""Which tasks an iteration rolls out.

Training tasks are drawn at random. `uniform` draws from all; `ratio` first divides the number over
difficulties or domains by weight, then draws from each. No task is drawn a second time before all
of its pool were. Tasks of domains that block us are left out. The draw depends on the seed, the
iteration and the tasks, so every rank and every later process comes to the same one. Harder tasks
come first: they take longest, and whoever begins with them does not wait for them at the end.

Test tasks are the first of their file, in its order, and none is left out.
"""

import heapq
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Literal

import msgspec

from rollgym.records import derive_seed
from rollgym.store import RefusedError
from webgym.tasks.file import TaskTable

_NAMED = {"easy": "1-3", "medium": "4-6", "hard": "7+"}
_WRITTEN = re.compile(r"(?P<first>\d{1,9})(?:-(?P<last>\d{1,9})|(?P<open>\+))?", re.ASCII)


class DifficultyRange(msgspec.Struct, frozen=True):
    """From `first` to `last`, both included; no end where `last` is None."""

    first: int
    last: int | None

    @classmethod
    def of(cls, written: str) -> "DifficultyRange":
        """Raises ValueError."""
        plain = written.strip().lower()
        found = _WRITTEN.fullmatch(_NAMED.get(plain, plain))
        if found is None:
            raise ValueError(
                f'{written!r} is no range of difficulty: write "1-3", "5", "7+", or easy, medium, '
                "hard"
            )
        first = int(found["first"])
        last = None if found["open"] else int(found["last"] or first)
        if first < 1 or (last is not None and last < first):
            raise ValueError(f"{written!r} is no range of difficulty: it holds none, from 1 on")
        return cls(first, last)

    def holds(self, difficulty: int) -> bool:
        return self.first <= difficulty and (self.last is None or difficulty <= self.last)

    def overlaps(self, other: "DifficultyRange") -> bool:
        return self.holds(other.first) or other.holds(self.first)


Weight = int | float | Fraction


def divide(total: int, weights: Sequence[Weight]) -> tuple[int, ...]:
    """A part of `total` for each weight. The parts add up; each is within 1 of its exact share.

    Raises ValueError for a negative total, and for weights of which none is above 0.
    """
    if total < 0:
        raise ValueError(f"{total} cannot be divided: it is below 0")
    exact = [_exact(weight) for weight in weights]
    whole = sum(exact)
    if whole == 0:
        raise ValueError("nothing can be divided by weights of which none is above 0")
    shares = [total * weight / whole for weight in exact]
    parts = [math.floor(share) for share in shares]
    by_loss = sorted(range(len(parts)), key=lambda place: parts[place] - shares[place])
    for place in by_loss[: total - sum(parts)]:
        parts[place] += 1
    return tuple(parts)


def deal(count: int, weights: Sequence[Weight]) -> Iterator[int]:
    """Who gets each of `count` things that stand in a row: as many for each as `divide` says.

    Everybody's things are spread evenly over the row, so that where the row begins with the hard
    ones nobody gets them all. Raises ValueError as `divide` does.
    """
    hands = [_spread(owner, size) for owner, size in enumerate(divide(count, weights))]
    return (owner for _, owner in heapq.merge(*hands))


def _spread(owner: int, size: int) -> Iterator[tuple[float, int]]:
    """Where in the row, from 0 to 1, the things of one owner would stand best."""
    return (((2 * number + 1) / (2 * size), owner) for number in range(size))


def _exact(weight: Weight) -> Fraction:
    """0.1 means a tenth, not the binary number beside it."""
    if not math.isfinite(weight) or weight < 0:
        raise ValueError(f"{weight} is no weight: a weight is a number from 0 on")
    return Fraction(repr(weight)) if isinstance(weight, float) else Fraction(weight)


ALL = -1


class SamplingError(RefusedError):
    """The settings of the sampler cannot be used, or there is no task to draw."""


class SamplerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How training tasks are drawn. `size` -1 means as many as there are; it may be more.

    `ratio` needs the weights of either difficulties (`{"1-3": 2, "hard": 1}`) or domains.
    """

    sampler: Literal["uniform", "ratio"] = "uniform"
    size: int = ALL
    difficulty_ratio: dict[str, float] = {}
    domain_ratio: dict[str, float] = {}


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks, by their places in the file, in the order in which to begin them.

    `blocked` counts those left out, by domain. `notes` tell people what is not as they asked.
    """

    places: tuple[int, ...]
    blocked: dict[str, int] = {}
    notes: tuple[str, ...] = ()


class RolloutSampler:
    """Draws training tasks."""

    def __init__(self, settings: SamplerSettings) -> None:
        """Raises SamplingError."""
        _check_size("train_tasks_rollout_size", settings.size)
        self._size = settings.size
        self._buckets = _buckets(settings)

    def draw(
        self, tasks: TaskTable, seed: int, iteration: int, blocked: frozenset[str] = frozenset()
    ) -> Draw:
        """Raises SamplingError where no task is left to draw."""
        left_out = Counter(
            host for place in range(len(tasks)) if (host := tasks.host(place)) in blocked
        )
        pools, notes = self._fill(tasks, blocked)
        if not pools:
            raise SamplingError(_nothing_left(len(tasks), left_out, notes))
        size = sum(len(places) for _, places in pools) if self._size == ALL else self._size
        counts = divide(size, [bucket.weight for bucket, _ in pools])
        drawn = [
            place
            for (bucket, places), count in zip(pools, counts, strict=True)
            for place in _drawn(places, count, derive_seed(seed, "sample", iteration, bucket.name))
        ]
        again = len(drawn) - len(set(drawn))
        if again:
            notes += (f"{again} of {size} tasks are drawn again: there are not that many to draw",)
        drawn.sort(key=tasks.difficulty, reverse=True)
        return Draw(places=tuple(drawn), blocked=dict(sorted(left_out.items())), notes=notes)

    def _fill(
        self, tasks: TaskTable, blocked: frozenset[str]
    ) -> tuple[list[tuple["_Bucket", list[int]]], tuple[str, ...]]:
        """The buckets that have a weight and tasks; and what to say about the others."""
        filled = [(bucket, list[int]()) for bucket in self._buckets]
        outside = 0
        for place in range(len(tasks)):
            if tasks.host(place) in blocked:
                continue
            for bucket, places in filled:
                if bucket.holds(tasks, place):
                    places.append(place)
                    break
            else:
                outside += 1
        notes = [
            f"there is no task of {bucket.name}: its share goes to the others"
            for bucket, places in filled
            if bucket.weight and not places
        ]
        if outside:
            notes.append(f"{outside} task(s) are in no part of the ratio, and are never drawn")
        used = [(bucket, places) for bucket, places in filled if bucket.weight and places]
        return used, tuple(notes)


def first_tasks(tasks: TaskTable, size: int = ALL) -> Draw:
    """The first `size` tasks of a test file, or all. Raises SamplingError."""
    _check_size("test_tasks_rollout_size", size)
    count = len(tasks) if size == ALL else min(size, len(tasks))
    notes = (f"{size} test tasks were asked for, and there are {count}",) if count < size else ()
    return Draw(places=tuple(range(count)), notes=notes)


Holds = Callable[[TaskTable, int], bool]


class _Bucket(msgspec.Struct, frozen=True):
    """A part of the tasks. `holds` says whether the one at a place belongs to it."""

    name: str
    weight: float
    holds: Holds


def _buckets(settings: SamplerSettings) -> Sequence[_Bucket]:
    difficulties, domains = settings.difficulty_ratio, settings.domain_ratio
    match settings.sampler:
        case "uniform":
            if difficulties or domains:
                raise SamplingError(
                    "a ratio is given, but the sampler is uniform, which has none: choose "
                    "train_tasks_sampler=ratio, or leave difficulty_ratio and domain_ratio out"
                )
            return [_Bucket("all", 1.0, lambda _tasks, _place: True)]
        case "ratio":
            if bool(difficulties) == bool(domains):
                raise SamplingError(
                    "the sampler ratio needs either difficulty_ratio or domain_ratio, e.g. "
                    'difficulty_ratio={"1-3": 2, "4-6": 1, "7+": 1}'
                )
            return _by_difficulty(difficulties) if difficulties else _by_domain(domains)


def _by_difficulty(ratio: Mapping[str, float]) -> list[_Bucket]:
    _check_weights("difficulty_ratio", ratio.values())
    try:
        ranges = {written: DifficultyRange.of(written) for written in ratio}
    except ValueError as error:
        raise SamplingError(f"difficulty_ratio: {error}") from error
    for one, other in combinations(ranges, 2):
        if ranges[one].overlaps(ranges[other]):
            raise SamplingError(f"difficulty_ratio: {one!r} and {other!r} overlap")
    return [
        _Bucket(f"difficulty {written}", weight, _of_difficulty(ranges[written]))
        for written, weight in ratio.items()
    ]


def _by_domain(ratio: Mapping[str, float]) -> list[_Bucket]:
    _check_weights("domain_ratio", ratio.values())
    return [
        _Bucket(f"domain {domain}", weight, _of_domain(domain)) for domain, weight in ratio.items()
    ]


def _of_difficulty(wanted: DifficultyRange) -> Holds:
    return lambda tasks, place: wanted.holds(tasks.difficulty(place))


def _of_domain(wanted: str) -> Holds:
    return lambda tasks, place: tasks.domain(place) == wanted


def _drawn(places: list[int], count: int, seed: int) -> list[int]:
    """All of them in a random order, and again in another, as far as needed."""
    chance = random.Random(seed)  # noqa: S311 (reproducible is what it must be)
    drawn: list[int] = []
    while len(drawn) < count:
        drawn += chance.sample(places, min(count - len(drawn), len(places)))
    return drawn


def _check_size(name: str, size: int) -> None:
    if size != ALL and size < 1:
        raise SamplingError(f"{name}={size} is no number of tasks: give 1 or more, or -1 for all")


def _check_weights(name: str, weights: Iterable[float]) -> None:
    try:
        divide(0, list(weights))
    except ValueError as error:
        raise SamplingError(f"{name}: {error}") from error


def _nothing_left(count: int, left_out: Mapping[str, int], notes: Iterable[str]) -> str:
    blocked = sum(left_out.values())
    if blocked == count:
        return (
            f"all {count} training tasks are on domains of the blocklist "
            f"({', '.join(sorted(left_out))}): wait until the entries expire, or take them out of "
            "blocklist.jsonl"
        )
    what = f"; {blocked} of {count} tasks are on blocked domains" if blocked else ""
    return f"there is no training task to draw: {'; '.join(notes)}{what}"
