"""Comparing runs: two sources task by task, and the configurations of several runs.

*Tasks* are the same in both sources if their keys are equal. Each source is read into a dictionary
with one short struct for each task; titles are read for the tasks of the page only, unless they are
sorted by. The change of a task without any reward on one side is `unknown`.

*Configurations.* A run without a manifest has no settings, so all settings of the others differ.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from rollgym.store import Manifest
from rollgym.viewer.queries.filter import (
    MOST_ENTRIES,
    USUAL_ENTRIES,
    Parameters,
    Query,
    texts_by_id,
)
from rollgym.viewer.source import EntryId

SAME_WITHIN = 1e-9
Change = Literal["improved", "regressed", "same", "left_only", "right_only", "unknown"]
CHANGES: tuple[Change, ...] = get_args(Change)
COMPARISON_SORTS = ("task", "delta", "left", "right", "title")
_PARAMETERS = frozenset(("left", "right", "change", "sort", "order", "offset", "limit"))
# Grouped by index first, which is much faster than by key; indexes with one key are merged later.
# With min(id), SQLite takes `task_key` and `task` from the entry that has it.
_SIDE = """
SELECT task_key, task, coalesce(sum(reward), 0.0), count(reward),
       coalesce(sum(success), 0), count(success), count(*), min(id)
FROM entry NOT INDEXED WHERE is_outcome = 1 AND status NOT IN ('input', 'unreadable')
     AND task_key <> ''
GROUP BY coalesce(task, task_key)
"""


class ComparisonQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks to show, and in which order. Without `changes` all of them."""

    changes: tuple[str, ...] = ()
    sort: str = COMPARISON_SORTS[0]
    descending: bool = False
    offset: int = 0
    limit: int = USUAL_ENTRIES

    @classmethod
    def of(cls, query: Query) -> "ComparisonQuery":
        """From a URL's parameters; the caller reads `left` and `right`. Raises RequestError."""
        given = Parameters(query, _PARAMETERS)
        return cls(
            changes=given.some_of("change", CHANGES),
            sort=given.one_of("sort", COMPARISON_SORTS, COMPARISON_SORTS[0]),
            descending=given.one_of("order", ("asc", "desc"), "asc") == "desc",
            offset=given.natural("offset", 0),
            limit=given.natural("limit", USUAL_ENTRIES, 1, MOST_ENTRIES),
        )


class ComparedSource(NamedTuple):
    """One of the two sources that are compared."""

    id: str
    title: str
    connection: sqlite3.Connection


class ComparedSourceSummary(msgspec.Struct, frozen=True):
    """`mean` is the mean reward of all tasks that have a key."""

    id: str
    title: str
    tasks: int
    mean: float | None


class TaskInSource(msgspec.Struct, frozen=True):
    """A task in one of the sources; `first` is the id of its first entry."""

    task: int | None
    mean: float | None
    successes: int
    judged: int
    rollouts: int
    first: str


class ComparedTask(msgspec.Struct, frozen=True):
    """`delta` is right minus left; None if either has no reward."""

    task_key: str
    title: str
    left: TaskInSource | None
    right: TaskInSource | None
    delta: float | None
    change: Change


class TaskComparison(msgspec.Struct, frozen=True):
    """A page of the tasks. `counts` are of all tasks, `total` is of those that match."""

    left: ComparedSourceSummary
    right: ComparedSourceSummary
    counts: dict[Change, int]
    total: int
    tasks: tuple[ComparedTask, ...]


class _TaskTotals(msgspec.Struct, frozen=True, gc=False):
    """The totals of a task in one source: a row of the statement."""

    key: str
    task: int | None
    reward: float
    rewarded: int
    successes: int
    judged: int
    rollouts: int
    first: int

    @property
    def mean(self) -> float | None:
        return self.reward / self.rewarded if self.rewarded else None

    def side(self) -> TaskInSource:
        return TaskInSource(
            self.task,
            self.mean,
            self.successes,
            self.judged,
            self.rollouts,
            str(EntryId.of(self.first)),
        )

    def plus(self, other: "_TaskTotals") -> "_TaskTotals":
        earlier = min(self, other, key=lambda totals: totals.first)
        return _TaskTotals(
            self.key,
            earlier.task,
            self.reward + other.reward,
            self.rewarded + other.rewarded,
            self.successes + other.successes,
            self.judged + other.judged,
            self.rollouts + other.rollouts,
            earlier.first,
        )


class _TaskPair(msgspec.Struct, frozen=True, gc=False):
    """A task in both sources; None where a source does not have it."""

    key: str
    left: _TaskTotals | None
    right: _TaskTotals | None
    delta: float | None
    change: Change


def compare_tasks(
    left: ComparedSource, right: ComparedSource, wanted: ComparisonQuery
) -> TaskComparison:
    """The page that `wanted` describes. Each connection must see one state of its index."""
    lefts, rights = _task_totals(left.connection), _task_totals(right.connection)
    pairs = [_pair(key, totals, rights.get(key)) for key, totals in lefts.items()]
    pairs += [_pair(key, None, totals) for key, totals in rights.items() if key not in lefts]
    counts = Counter(pair.change for pair in pairs)
    if wanted.changes:
        pairs = [pair for pair in pairs if pair.change in wanted.changes]
    titles = _titles(left, right, pairs) if wanted.sort == "title" else {}
    ordered = _ordered(pairs, wanted, titles)
    page = ordered[wanted.offset : wanted.offset + wanted.limit]
    titles = titles or _titles(left, right, page)
    return TaskComparison(
        _summary(left, lefts),
        _summary(right, rights),
        {change: counts[change] for change in CHANGES},
        len(pairs),
        tuple(
            ComparedTask(
                pair.key,
                titles.get(pair.key, ""),
                pair.left.side() if pair.left else None,
                pair.right.side() if pair.right else None,
                pair.delta,
                pair.change,
            )
            for pair in page
        ),
    )


def _task_totals(connection: sqlite3.Connection) -> dict[str, _TaskTotals]:
    by_key: dict[str, _TaskTotals] = {}
    for totals in starmap(_TaskTotals, connection.execute(_SIDE)):
        known = by_key.get(totals.key)
        by_key[totals.key] = totals if known is None else known.plus(totals)
    return by_key


def _pair(key: str, left: _TaskTotals | None, right: _TaskTotals | None) -> _TaskPair:
    if right is None:
        return _TaskPair(key, left, right, None, "left_only")
    if left is None:
        return _TaskPair(key, left, right, None, "right_only")
    before, after = left.mean, right.mean
    if before is None or after is None:
        return _TaskPair(key, left, right, None, "unknown")
    delta = after - before
    if abs(delta) <= SAME_WITHIN:
        return _TaskPair(key, left, right, delta, "same")
    return _TaskPair(key, left, right, delta, "improved" if delta > 0 else "regressed")


def _ordered(
    pairs: Sequence[_TaskPair], wanted: ComparisonQuery, titles: Mapping[str, str]
) -> list[_TaskPair]:
    """Sorted, with pairs without a value last, and equal ones by their keys."""

    def value_of(pair: _TaskPair) -> Any:
        return titles.get(pair.key) if wanted.sort == "title" else _VALUES[wanted.sort](pair)

    valued = [(value_of(pair), pair) for pair in sorted(pairs, key=attrgetter("key"))]
    ranked = [(value, pair) for value, pair in valued if value is not None]
    ranked.sort(key=itemgetter(0), reverse=wanted.descending)
    return [pair for _, pair in ranked] + [pair for value, pair in valued if value is None]


def _task(pair: _TaskPair) -> int | None:
    totals = pair.left or pair.right
    return totals.task if totals else None


_VALUES: Mapping[str, Callable[[_TaskPair], float | None]] = {
    "task": _task,
    "delta": lambda pair: pair.delta,
    "left": lambda pair: pair.left.mean if pair.left else None,
    "right": lambda pair: pair.right.mean if pair.right else None,
}


def _titles(
    left: ComparedSource, right: ComparedSource, pairs: Sequence[_TaskPair]
) -> dict[str, str]:
    """The title of each task, from the left source if it has the task."""
    titles: dict[str, str] = {}
    for side, totals in (
        (left, [pair.left for pair in pairs if pair.left]),
        (right, [pair.right for pair in pairs if pair.right and not pair.left]),
    ):
        first = [each.first for each in totals]
        known = texts_by_id(side.connection, "entry, title FROM words", first)
        titles |= {each.key: known.get(each.first, "") for each in totals}
    return titles


def _summary(side: ComparedSource, totals: Mapping[str, _TaskTotals]) -> ComparedSourceSummary:
    rewarded = sum(each.rewarded for each in totals.values())
    reward = sum(each.reward for each in totals.values())
    return ComparedSourceSummary(
        side.id, side.title, len(totals), reward / rewarded if rewarded else None
    )


class RunName(msgspec.Struct, frozen=True):
    id: str
    title: str


class SharedSetting(msgspec.Struct, frozen=True):
    """A setting that is equal in all runs: a text as it is, everything else as JSON."""

    name: str
    value: str


class SettingDifference(msgspec.Struct, frozen=True):
    """A setting with its value in each run; None where a run does not have it."""

    name: str
    values: tuple[str | None, ...]


class ConfigurationComparison(msgspec.Struct, frozen=True):
    """`values` of the differences are in the order of `sources`."""

    sources: tuple[RunName, ...]
    constants: tuple[SharedSetting, ...]
    differences: tuple[SettingDifference, ...]


def compare_configurations(
    runs: Sequence[tuple[RunName, Manifest | None]],
) -> ConfigurationComparison:
    """Compare runs. Settings are in alphabetical order, after those of the inputs and the seed."""
    settings = [_settings(manifest) for _, manifest in runs]
    names = dict.fromkeys(name for each in settings for name in list(each)[:_FIXED])
    names.update(dict.fromkeys(sorted({name for each in settings for name in each})))
    constants, differences = [], []
    for name in names:
        values = tuple(each.get(name) for each in settings)
        first = values[0]
        if first is not None and all(value == first for value in values):
            constants.append(SharedSetting(name, first))
        else:
            differences.append(SettingDifference(name, values))
    return ConfigurationComparison(
        tuple(run for run, _ in runs), tuple(constants), tuple(differences)
    )


_FIXED = 4
"""The number of settings that every manifest has in addition to its configuration."""


def _settings(manifest: Manifest | None) -> dict[str, str]:
    if manifest is None:
        return {}
    identity = manifest.identity
    return {
        "inputs.tasks": str(identity.inputs.tasks),
        "inputs.rollouts": str(identity.inputs.rollouts),
        "inputs.sha256": identity.inputs.sha256,
        "seed": str(identity.seed),
    } | {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in identity.config.items()
    }
