"""Sampling: which tasks an iteration rolls out, and how they are divided over ranks.

*Sampling.* Training tasks are sampled at random. `uniform` samples from all; `ratio` first divides
the number over difficulties or domains by weight, then samples from each. No task is sampled a
second time before all tasks of its pool were. Tasks of blocked domains are excluded. The sample
depends on the seed, the iteration and the tasks, so every rank and every later process gets the
same one. Harder tasks come first: they take longest, so the end of an iteration waits less for
them. Test tasks are the first of their file, in its order, and none is excluded.

*Division.* Counts are divided by largest remainder: each weight gets the whole part of its exact
share, and the remaining units go, one each, to the shares that lost most; of equal ones the first
gets it. Arithmetic is exact, so all ranks get the same result.
"""

import heapq
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
                f'{written!r} is not a difficulty range: write "1-3", "5", "7+", or easy, medium, '
                "hard"
            )
        first = int(found["first"])
        last = None if found["open"] else int(found["last"] or first)
        if first < 1 or (last is not None and last < first):
            raise ValueError(
                f"{written!r} is not a difficulty range: it contains no difficulty from 1 on"
            )
        return cls(first, last)

    def holds(self, difficulty: int) -> bool:
        return self.first <= difficulty and (self.last is None or difficulty <= self.last)

    def overlaps(self, other: "DifficultyRange") -> bool:
        return self.holds(other.first) or other.holds(self.first)


Weight = int | float | Fraction


def divide(total: int, weights: Sequence[Weight]) -> tuple[int, ...]:
    """A part of `total` for each weight. The parts sum to it; each is within 1 of its exact share.

    Raises ValueError for a negative total, and for weights of which none is above 0.
    """
    if total < 0:
        raise ValueError(f"{total} cannot be divided: it is negative")
    exact = [_exact(weight) for weight in weights]
    whole = sum(exact)
    if whole == 0:
        raise ValueError("at least one weight must be above 0")
    shares = [total * weight / whole for weight in exact]
    parts = [math.floor(share) for share in shares]
    by_loss = sorted(range(len(parts)), key=lambda position: parts[position] - shares[position])
    for position in by_loss[: total - sum(parts)]:
        parts[position] += 1
    return tuple(parts)


def deal(count: int, weights: Sequence[Weight]) -> Iterator[int]:
    """The owner of each of `count` items in a row; each owner gets as many as `divide` says.

    The items of an owner are spread evenly over the row, so that no owner gets all the hard tasks
    at its start. Raises ValueError as `divide`.
    """
    spreads = [_spread(owner, size) for owner, size in enumerate(divide(count, weights))]
    return (owner for _, owner in heapq.merge(*spreads))


def _spread(owner: int, size: int) -> Iterator[tuple[float, int]]:
    """The ideal positions of an owner's items in the row, from 0 to 1."""
    return (((2 * number + 1) / (2 * size), owner) for number in range(size))


def _exact(weight: Weight) -> Fraction:
    """0.1 means exactly a tenth, not the nearest binary number."""
    if not math.isfinite(weight) or weight < 0:
        raise ValueError(f"{weight} is not a weight: give a number that is 0 or more")
    return Fraction(repr(weight)) if isinstance(weight, float) else Fraction(weight)


ALL = -1


class SamplingError(RefusedError):
    """The settings of the sampler cannot be used, or no task is available."""


class SamplerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How training tasks are sampled. `size` -1 means all tasks; it may exceed their number.

    `ratio` needs the weights of either difficulties (`{"1-3": 2, "hard": 1}`) or domains.
    """

    sampler: Literal["uniform", "ratio"] = "uniform"
    size: int = ALL
    difficulty_ratio: dict[str, float] = {}
    domain_ratio: dict[str, float] = {}


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """The sampled tasks, by their positions in the file, in the order in which they start.

    `blocked` counts the excluded tasks by domain. `notes` explain differences from the settings.
    """

    positions: tuple[int, ...]
    blocked: dict[str, int] = {}
    notes: tuple[str, ...] = ()


class RolloutSampler:
    """Samples training tasks."""

    def __init__(self, settings: SamplerSettings) -> None:
        """Raises SamplingError."""
        _check_size("train_tasks_rollout_size", settings.size)
        self._size = settings.size
        self._buckets = _buckets(settings)

    def draw(
        self, tasks: TaskTable, seed: int, iteration: int, blocked: frozenset[str] = frozenset()
    ) -> Draw:
        """Raises SamplingError where no task is available."""
        left_out = Counter(
            host for position in range(len(tasks)) if (host := tasks.host(position)) in blocked
        )
        pools, notes = self._fill(tasks, blocked)
        if not pools:
            raise SamplingError(_nothing_left(len(tasks), left_out, notes))
        size = sum(len(positions) for _, positions in pools) if self._size == ALL else self._size
        counts = divide(size, [bucket.weight for bucket, _ in pools])
        drawn = [
            position
            for (bucket, positions), count in zip(pools, counts, strict=True)
            for position in _drawn(
                positions, count, derive_seed(seed, "sample", iteration, bucket.name)
            )
        ]
        again = len(drawn) - len(set(drawn))
        if again:
            notes += (f"{again} of {size} tasks are repeated, because fewer tasks are available",)
        drawn.sort(key=tasks.difficulty, reverse=True)
        return Draw(positions=tuple(drawn), blocked=dict(sorted(left_out.items())), notes=notes)

    def _fill(
        self, tasks: TaskTable, blocked: frozenset[str]
    ) -> tuple[list[tuple["_Bucket", list[int]]], tuple[str, ...]]:
        """The buckets that have a weight and tasks, and notes about the others."""
        filled = [(bucket, list[int]()) for bucket in self._buckets]
        outside = 0
        for position in range(len(tasks)):
            if tasks.host(position) in blocked:
                continue
            for bucket, positions in filled:
                if bucket.holds(tasks, position):
                    positions.append(position)
                    break
            else:
                outside += 1
        notes = [
            f"no task is in {bucket.name}: its share goes to the others"
            for bucket, positions in filled
            if bucket.weight and not positions
        ]
        if outside:
            notes.append(f"{outside} task(s) match no part of the ratio and are never sampled")
        used = [(bucket, positions) for bucket, positions in filled if bucket.weight and positions]
        return used, tuple(notes)


def first_tasks(tasks: TaskTable, size: int = ALL) -> Draw:
    """The first `size` tasks of a test file, or all. Raises SamplingError."""
    _check_size("test_tasks_rollout_size", size)
    count = len(tasks) if size == ALL else min(size, len(tasks))
    notes = (f"the test file has only {count} of {size} tasks",) if count < size else ()
    return Draw(positions=tuple(range(count)), notes=notes)


class _Bucket(msgspec.Struct, frozen=True):
    """The tasks of a difficulty range or of a domain, or all tasks."""

    name: str
    weight: float
    wanted: DifficultyRange | str | None = None

    def holds(self, tasks: TaskTable, position: int) -> bool:
        """Whether the task at a position belongs to it."""
        if isinstance(self.wanted, DifficultyRange):
            return self.wanted.holds(tasks.difficulty(position))
        return self.wanted is None or self.wanted == tasks.domain(position)


def _buckets(settings: SamplerSettings) -> Sequence[_Bucket]:
    difficulties, domains = settings.difficulty_ratio, settings.domain_ratio
    match settings.sampler:
        case "uniform":
            if difficulties or domains:
                raise SamplingError(
                    "a ratio is set, but the sampler is uniform: set train_tasks_sampler=ratio, or "
                    "remove difficulty_ratio and domain_ratio"
                )
            return [_Bucket("all", 1.0)]
        case "ratio":
            if bool(difficulties) == bool(domains):
                raise SamplingError(
                    "the sampler ratio needs either difficulty_ratio or domain_ratio, such as "
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
        _Bucket(f"difficulty {written}", weight, ranges[written])
        for written, weight in ratio.items()
    ]


def _by_domain(ratio: Mapping[str, float]) -> list[_Bucket]:
    _check_weights("domain_ratio", ratio.values())
    return [_Bucket(f"domain {domain}", weight, domain) for domain, weight in ratio.items()]


def _drawn(positions: list[int], count: int, seed: int) -> list[int]:
    """All positions in random order, repeated in other orders as needed."""
    chance = random.Random(seed)  # noqa: S311 - it must be reproducible
    drawn: list[int] = []
    while len(drawn) < count:
        drawn += chance.sample(positions, min(count - len(drawn), len(positions)))
    return drawn


def _check_size(name: str, size: int) -> None:
    if size != ALL and size < 1:
        raise SamplingError(
            f"{name}={size} is not a number of tasks: give 1 or more, or -1 for all"
        )


def _check_weights(name: str, weights: Iterable[float]) -> None:
    try:
        divide(0, list(weights))
    except ValueError as error:
        raise SamplingError(f"{name}: {error}") from error


def _nothing_left(count: int, left_out: Mapping[str, int], notes: Iterable[str]) -> str:
    blocked = sum(left_out.values())
    if blocked == count:
        return (
            f"all {count} training tasks are on blocked domains "
            f"({', '.join(sorted(left_out))}): wait until the entries expire, or remove them "
            "from blocklist.jsonl"
        )
    what = f"; {blocked} of {count} tasks are on blocked domains" if blocked else ""
    return f"no training task is available: {'; '.join(notes)}{what}"
