"""The overview: all charts and tables of a selection at once.

The numbers of all entries are needed together, for the charts, pass@k and the changes over time.
They are read column by column: SQLite makes one JSON array of a column of integers, which is
decoded several times as fast as rows. Floats would be rounded in JSON, so rewards and seconds are
read as rows, in the same order. They are only held in memory during the call.
"""

import sqlite3
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress, pairwise, repeat
from operator import is_not
from typing import Any

import msgspec

from rollgym.metrics import PassAtK
from rollgym.records.sign import sign_meaning
from rollgym.records.version import VersionOrder
from rollgym.viewer.queries.charts import Histogram, OverTime, histogram, over_time
from rollgym.viewer.queries.counts import CauseCount, KindCount, SourceCoverage, coverage, failures
from rollgym.viewer.queries.filter import MOMENT, TOKENS, Filter
from rollgym.viewer.queries.search import SearchProgress


class PassAt(msgspec.Struct, frozen=True):
    """The probability that one of k rollouts of a task succeeds, over the tasks that have k."""

    k: int
    value: float
    tasks: int


def pass_at(
    tasks: Sequence[int | str | None], successes: Sequence[int | None]
) -> tuple[PassAt, ...]:
    """pass@k for k = 1, 2, 4, ... and the most repeats of any task.

    Each entry has one task and one success; entries without either do not count.
    """
    judged = Counter(compress(tasks, map(is_not, successes, repeat(None))))
    judged.pop(None, None)
    succeeded = Counter(compress(tasks, successes))
    groups = Counter(zip(judged.values(), map(succeeded.get, judged, repeat(0)), strict=False))
    passes = PassAtK()
    for (size, good), number in groups.items():
        passes.add_counts(size, good, number)
    return tuple(
        PassAt(k, float(estimate), passes.tasks(k)) for k, estimate in passes.estimates().items()
    )


MOST_TOOLS = 200
_MOST_MARKS = 32 << 20
_RECORD = (1 << 32) - 1


class ToolCount(msgspec.Struct, frozen=True):
    """The number of rollouts that called a tool, and the number of calls."""

    name: str
    rollouts: int
    calls: int


def tools(connection: sqlite3.Connection, numbers: Sequence[int]) -> tuple[ToolCount, ...]:
    """The tools of the entries with these sorted numbers, the most used first.

    The table has several rows for each entry, and each row must be looked up in the selection. That
    is fastest with one byte for each record: a row then costs one access. The bytes of the parts
    follow each other, with as many bytes for each part as the longest one needs. Records beyond
    that are in no selection; their bytes would be those of the next part.
    """
    if not numbers:
        return ()
    # The index at which the numbers of each part start, and at which the last part ends.
    parts = range((numbers[-1] >> 32) + 2)
    begins = [bisect_left(numbers, part << 32) for part in parts]
    longest = 1 + max(numbers[end - 1] & _RECORD for end in begins if end)
    size = (len(begins) - 1) * longest
    if size <= _MOST_MARKS:
        marks = bytearray(size)
        for part, (begin, end) in enumerate(pairwise(begins)):
            offset = part * longest - (part << 32)
            for number in numbers[begin:end]:
                marks[number + offset] = 1
        record = f"(entry & {_RECORD})"
        marked = f"substr(?, (entry >> 32) * {longest} + {record} + 1, 1) = x'01'"
        condition = f"{record} < {longest} AND {marked}"
        value: bytes | str = bytes(marks)
    else:  # many parts, one of them long
        condition = "entry IN (SELECT value FROM json_each(?))"
        value = msgspec.json.encode(numbers).decode()
    rows = connection.execute(
        "SELECT name, count(*) AS rollouts, sum(calls) FROM tool "  # noqa: S608 - our own
        f"WHERE {condition} GROUP BY name ORDER BY rollouts DESC, name LIMIT ?",
        (value, MOST_TOOLS),
    )
    return tuple(ToolCount(*row) for row in rows)


_ROLLOUTS = "entry.status NOT IN ('input', 'unreadable')"
_NAMES = msgspec.json.Decoder(list[int | str | None])
_NUMBERS = msgspec.json.Decoder(list[int])
_INTEGERS = msgspec.json.Decoder(list[int | None])
_COLUMNS: Mapping[str, msgspec.json.Decoder[Any]] = {
    "entry.id": _NUMBERS,
    "coalesce(task, task_key)": _NAMES,
    "success": _INTEGERS,
    "steps": _INTEGERS,
    "tool_calls": _INTEGERS,
    TOKENS: _INTEGERS,
    MOMENT.format("started"): _INTEGERS,
    "nullif(ending, '')": _NAMES,
}
"""The columns that are read as JSON, in the order that `_Columns` has them in."""


class EndingCount(msgspec.Struct, frozen=True):
    ending: str
    rollouts: int


class SignCount(msgspec.Struct, frozen=True):
    """How many rollouts have a sign. `meaning` is empty for an unknown sign."""

    sign: str
    rollouts: int
    meaning: str


class VersionCount(msgspec.Struct, frozen=True):
    """How many rollouts have turns of a policy version, and how many turns."""

    version: str
    rollouts: int
    turns: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of the entries that match; `coverage` is that of the whole source.

    `judged` counts the `rollouts` whose success is known.
    """

    coverage: SourceCoverage
    rollouts: int
    judged: int
    successes: int
    mean_reward: float | None
    success_rate: float | None
    reward: Histogram | None
    over_time: OverTime
    steps: Histogram | None
    tool_calls: Histogram | None
    tokens: Histogram | None
    seconds: Histogram | None
    kinds: tuple[KindCount, ...]
    causes: tuple[CauseCount, ...]
    tools: tuple[ToolCount, ...]
    pass_at: tuple[PassAt, ...]
    endings: tuple[EndingCount, ...]
    signs: tuple[SignCount, ...]
    versions: tuple[VersionCount, ...]
    search: SearchProgress | None


def overview(
    connection: sqlite3.Connection,
    wanted: Filter,
    expected: int | None,
    search: SearchProgress | None = None,
) -> Overview:
    """The overview of the entries that match, without inputs and unreadable lines.

    The connection must see one state of the index during the call.
    """
    columns = _columns(connection, wanted)
    reward = histogram(columns.rewards, share=True)
    judged = [success for success in columns.successes if success is not None]
    failed = failures(connection, wanted)
    return Overview(
        coverage=coverage(connection, expected),
        rollouts=len(columns.rewards),
        judged=len(judged),
        successes=sum(judged),
        mean_reward=None if reward is None else reward.mean,
        success_rate=sum(judged) / len(judged) if judged else None,
        reward=reward,
        over_time=over_time(columns.numbers, columns.started, columns.successes, columns.rewards),
        steps=histogram(columns.steps),
        tool_calls=histogram(columns.tool_calls),
        tokens=histogram(columns.tokens),
        seconds=histogram(columns.seconds),
        kinds=failed.kinds,
        causes=failed.causes,
        tools=tools(connection, columns.numbers),
        pass_at=pass_at(columns.tasks, columns.successes),
        endings=_endings(columns.endings),
        signs=_signs(connection, wanted),
        versions=_versions(connection, wanted),
        search=search,
    )


class _Columns(msgspec.Struct, frozen=True):
    """One value for each entry, in the order of their records."""

    rewards: list[float | None]
    seconds: list[float | None]
    numbers: list[int]
    tasks: list[int | str | None]
    successes: list[int | None]
    steps: list[int | None]
    tool_calls: list[int | None]
    tokens: list[int | None]
    started: list[int | None]
    endings: list[int | str | None]


def _columns(connection: sqlite3.Connection, wanted: Filter) -> _Columns:
    where, values = wanted.where()
    # Without an index both statements scan the table in the order of the numbers.
    chosen = f"FROM entry NOT INDEXED WHERE {where} AND {_ROLLOUTS}"
    arrays = ", ".join(f"json_group_array({column})" for column in _COLUMNS)
    read = connection.execute(f"SELECT {arrays} {chosen}", values).fetchone()
    columns = [decoder.decode(text) for decoder, text in zip(_COLUMNS.values(), read, strict=True)]
    rewards: list[float | None] = []
    seconds: list[float | None] = []
    rows = connection.execute(f"SELECT reward, seconds {chosen} ORDER BY entry.id", values)
    while portion := rows.fetchmany(100):
        some_rewards, some_seconds = zip(*portion, strict=True)
        rewards += some_rewards
        seconds += some_seconds
    return _Columns(rewards, seconds, *columns)


def _endings(endings: list[int | str | None]) -> tuple[EndingCount, ...]:
    counts = Counter(endings)
    counts.pop(None, None)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    return tuple(EndingCount(str(ending), count) for ending, count in ordered)


def _signs(connection: sqlite3.Connection, wanted: Filter) -> tuple[SignCount, ...]:
    where, values = wanted.where()
    rows = connection.execute(
        "SELECT name, count(*) AS rollouts FROM sign JOIN entry ON entry.id = sign.entry "  # noqa: S608
        f"WHERE {where} GROUP BY name ORDER BY rollouts DESC, name LIMIT ?",
        (*values, MOST_TOOLS),
    )
    return tuple(SignCount(name, rollouts, sign_meaning(name)) for name, rollouts in rows)


def _versions(connection: sqlite3.Connection, wanted: Filter) -> tuple[VersionCount, ...]:
    """The policy versions in their order (`VersionOrder`), the last `MOST_TOOLS` of them."""
    where, values = wanted.where()
    rows = connection.execute(
        "SELECT name, count(*), sum(turns) FROM version "  # noqa: S608 - see Filter
        f"JOIN entry ON entry.id = version.entry WHERE {where} "
        "GROUP BY name ORDER BY min(started) NULLS LAST, min(entry.id)",
        values,
    )
    found = {name: VersionCount(name, rollouts, turns) for name, rollouts, turns in rows}
    return tuple(found[name] for name in VersionOrder(found).sorted()[-MOST_TOOLS:])
