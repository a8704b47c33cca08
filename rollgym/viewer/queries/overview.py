"""Everything of the overview at once.

The numbers of all entries are needed together, for the bars, for pass@k and for what happened over
time. They are read column by column: SQLite makes one JSON array of a column of whole numbers,
which is read several times as fast as rows are. Floats would be rounded on the way, so rewards and
seconds come as rows, in the same order. Nothing is held of them but for the length of the call.
"""

import sqlite3
from collections import Counter

import msgspec

from rollgym.viewer.queries.causes import CauseCount, KindCount, failures
from rollgym.viewer.queries.coverage import Coverage, coverage
from rollgym.viewer.queries.filter import MOMENT, TOKENS, Filter
from rollgym.viewer.queries.histogram import Histogram, histogram
from rollgym.viewer.queries.over_time import OverTime, over_time
from rollgym.viewer.queries.pass_at import PassAt, pass_at
from rollgym.viewer.queries.search import Search
from rollgym.viewer.queries.tools import ToolCount, tools

_COLUMNS = (
    "entry.id",
    "coalesce(task, task_key)",
    "success",
    "steps",
    "tool_calls",
    TOKENS,
    MOMENT.format("started"),
    "nullif(ending, '')",
)
_ROLLOUTS = "entry.status NOT IN ('input', 'unreadable')"
_NAMES = msgspec.json.Decoder(list[int | str | None])
_NUMBERS = msgspec.json.Decoder(list[int])
_INTEGERS = msgspec.json.Decoder(list[int | None])


class EndingCount(msgspec.Struct, frozen=True):
    ending: str
    rollouts: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """What the entries that fit amount to; `coverage` is that of the whole source.

    Of the `rollouts` so many are `judged`: it is known whether they are among the `successes`.
    """

    coverage: Coverage
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
    search: Search | None


def overview(
    connection: sqlite3.Connection,
    wanted: Filter,
    expected: int | None,
    search: Search | None = None,
) -> Overview:
    """Of the entries that fit, without inputs and lines that are no records.

    The connection must see one state of the index all the while.
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
        search=search,
    )


class _Columns(msgspec.Struct, frozen=True):
    """One value for each entry, in the order of their records."""

    numbers: list[int]
    tasks: list[int | str | None]
    successes: list[int | None]
    steps: list[int | None]
    tool_calls: list[int | None]
    tokens: list[int | None]
    started: list[int | None]
    endings: list[int | str | None]
    rewards: list[float | None]
    seconds: list[float | None]


def _columns(connection: sqlite3.Connection, wanted: Filter) -> _Columns:
    where, values = wanted.where()
    # Without an index both statements go through the table in the order of the numbers.
    chosen = f"FROM entry NOT INDEXED WHERE {where} AND {_ROLLOUTS}"
    arrays = ", ".join(f"json_group_array({column})" for column in _COLUMNS)
    numbers, tasks, successes, steps, tool_calls, tokens, started, endings = connection.execute(
        f"SELECT {arrays} {chosen}", values
    ).fetchone()
    rewards: list[float | None] = []
    seconds: list[float | None] = []
    rows = connection.execute(f"SELECT reward, seconds {chosen} ORDER BY entry.id", values)
    while portion := rows.fetchmany(100):
        some_rewards, some_seconds = zip(*portion, strict=True)
        rewards += some_rewards
        seconds += some_seconds
    return _Columns(
        numbers=_NUMBERS.decode(numbers),
        tasks=_NAMES.decode(tasks),
        successes=_INTEGERS.decode(successes),
        steps=_INTEGERS.decode(steps),
        tool_calls=_INTEGERS.decode(tool_calls),
        tokens=_INTEGERS.decode(tokens),
        started=_INTEGERS.decode(started),
        endings=_NAMES.decode(endings),
        rewards=rewards,
        seconds=seconds,
    )


def _endings(endings: list[int | str | None]) -> tuple[EndingCount, ...]:
    counts = Counter(endings)
    counts.pop(None, None)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    return tuple(EndingCount(str(ending), count) for ending, count in ordered)
