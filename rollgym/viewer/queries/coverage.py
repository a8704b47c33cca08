"""What became of the rollouts of a whole source.

As everywhere, expected = completed + failed + omitted + unresolved.
"""

import sqlite3
from collections import Counter

import msgspec

from rollgym.viewer.summary import Status

_MEANS = "SELECT avg(reward), avg(success) FROM entry NOT INDEXED WHERE standing = 1"
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


class Totals(msgspec.Struct, frozen=True):
    """A source in a line. The means are None where nothing was judged."""

    coverage: Coverage
    mean_reward: float | None
    success_rate: float | None


def totals(connection: sqlite3.Connection, expected: int | None) -> Totals:
    """Of all entries. `expected` is how many rollouts the run's manifest speaks of."""
    mean_reward, success_rate = connection.execute(_MEANS).fetchone()
    return Totals(coverage(connection, expected), mean_reward, success_rate)


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
