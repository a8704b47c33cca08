"""What became of the rollouts of a whole source.

As everywhere, expected = completed + failed + omitted + unresolved.
"""

import sqlite3
from collections import Counter
from math import isfinite

import msgspec

from rollgym.viewer.summary import Status

RATE_SECONDS = 300.0
"""Of how long before the last end the rate is told."""
_SHORTEST = 1.0
"""Seconds of a run before which nothing is said of its rate."""
_END = "started + coalesce(seconds, 0)"
_MEANS = (
    f"SELECT avg(reward), avg(success), min(started), max({_END}) "  # noqa: S608 - our own
    "FROM entry NOT INDEXED WHERE standing = 1"
)
_RECENT = (
    "SELECT count(*) FROM entry NOT INDEXED "  # noqa: S608 - our own
    f"WHERE standing = 1 AND status <> 'omitted' AND {_END} > ?"
)
_COUNTS = "SELECT status, standing, count(*) FROM entry GROUP BY status, standing"


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """`expected` and `unresolved` are None where nobody said how many rollouts there are to be.

    `retried` are the attempts that others took the place of.
    """

    expected: int | None
    completed: int
    failed: int
    omitted: int
    unresolved: int | None
    unreadable: int
    retried: int
    inputs: int


class Pace(msgspec.Struct, frozen=True):
    """When rollouts began and ended, as Unix times; None where the records do not say it.

    `rate` is how many ended in a minute, of the last five before `latest` or all that there were.
    """

    started: float | None = None
    latest: float | None = None
    rate: float | None = None


class Totals(msgspec.Struct, frozen=True):
    """A source in a line. The means are None where nothing was judged."""

    coverage: Coverage
    mean_reward: float | None
    success_rate: float | None
    pace: Pace = Pace()


def totals(connection: sqlite3.Connection, expected: int | None) -> Totals:
    """Of all entries. `expected` is how many rollouts the run's manifest speaks of."""
    mean_reward, success_rate, started, latest = connection.execute(_MEANS).fetchone()
    pace = _pace(connection, started, latest)
    return Totals(coverage(connection, expected), mean_reward, success_rate, pace)


def _pace(connection: sqlite3.Connection, started: float | None, latest: float | None) -> Pace:
    if started is None or latest is None or not (isfinite(started) and isfinite(latest)):
        return Pace()
    seconds = min(latest - started, RATE_SECONDS)
    if seconds < _SHORTEST:
        return Pace(started, latest)
    (ended,) = connection.execute(_RECENT, (latest - seconds,)).fetchone()
    return Pace(started, latest, 60 * ended / seconds)


def coverage(connection: sqlite3.Connection, expected: int | None) -> Coverage:
    """Of all entries."""
    standing: Counter[str] = Counter()
    retried = 0
    for status, stands, count in connection.execute(_COUNTS):
        if stands:
            standing[status] += count
        else:
            retried += count
    ended = standing[Status.COMPLETED] + standing[Status.FAILED] + standing[Status.OMITTED]
    return Coverage(
        expected=expected,
        completed=standing[Status.COMPLETED],
        failed=standing[Status.FAILED],
        omitted=standing[Status.OMITTED],
        # A file can hold a rollout more than once, and so more than were expected.
        unresolved=None if expected is None else max(expected - ended, 0),
        unreadable=standing[Status.UNREADABLE],
        retried=retried,
        inputs=standing[Status.INPUT],
    )
