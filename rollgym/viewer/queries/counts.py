"""Counts over a source: coverage, failures by kind and cause, and the values to filter by.

*Coverage.* As everywhere, expected = completed + failed + omitted + unresolved.

*Failures* count both outcomes (`failed`) and attempts that were followed by a retry (`retried`), so
that problems which retries solved are visible too. `status=failed&status=retried` with the cause
selects exactly the entries that were counted.

*Facets.* All columns are read in one pass: SQLite writes those of an entry as one short JSON text.
There are few different texts, so counting equal texts is nearly all the work.
"""

import sqlite3
from collections import Counter
from math import isfinite

import msgspec

from rollgym.viewer.documents.sections import meaning_of
from rollgym.viewer.queries.filter import Filter, texts_by_id
from rollgym.viewer.source import EntryId
from rollgym.viewer.summary import EntryStatus

RATE_SECONDS = 300.0
"""The period before the last end that the rate is measured over."""
_SHORTEST = 1.0
"""Seconds that a run must have lasted before it has a rate."""
_END = "started + coalesce(seconds, 0)"
_MEANS = (
    f"SELECT avg(reward), avg(success), min(started), max({_END}) "  # noqa: S608 - our own
    "FROM entry NOT INDEXED WHERE is_outcome = 1"
)
_RECENT = (
    "SELECT count(*) FROM entry NOT INDEXED "  # noqa: S608 - our own
    f"WHERE is_outcome = 1 AND status <> 'omitted' AND {_END} > ?"
)
_COUNTS = "SELECT status, is_outcome, count(*) FROM entry GROUP BY status, is_outcome"


class SourceCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The number of rollouts by outcome.

    `expected` and `unresolved` are None where the number of expected rollouts is unknown.
    `retried` counts the attempts that were superseded.
    """

    expected: int | None = None
    completed: int = 0
    failed: int = 0
    omitted: int = 0
    unresolved: int | None = None
    unreadable: int = 0
    retried: int = 0
    inputs: int = 0


class RolloutPace(msgspec.Struct, frozen=True):
    """When rollouts started and ended, as Unix times; None where it is unknown.

    `rate` is how many ended per minute in the last `RATE_SECONDS` before `latest`.
    """

    started: float | None = None
    latest: float | None = None
    rate: float | None = None


class SourceTotals(msgspec.Struct, frozen=True):
    """The totals of a source. The means are None where nothing was scored."""

    coverage: SourceCoverage = SourceCoverage()
    mean_reward: float | None = None
    success_rate: float | None = None
    pace: RolloutPace = RolloutPace()


def totals(connection: sqlite3.Connection, expected: int | None) -> SourceTotals:
    """The totals of all entries. `expected` is the number of rollouts in the run's manifest."""
    mean_reward, success_rate, started, latest = connection.execute(_MEANS).fetchone()
    pace = _pace(connection, started, latest)
    return SourceTotals(coverage(connection, expected), mean_reward, success_rate, pace)


def _pace(
    connection: sqlite3.Connection, started: float | None, latest: float | None
) -> RolloutPace:
    if started is None or latest is None or not (isfinite(started) and isfinite(latest)):
        return RolloutPace()
    seconds = min(latest - started, RATE_SECONDS)
    if seconds < _SHORTEST:
        return RolloutPace(started, latest)
    (ended,) = connection.execute(_RECENT, (latest - seconds,)).fetchone()
    return RolloutPace(started, latest, 60 * ended / seconds)


def coverage(connection: sqlite3.Connection, expected: int | None) -> SourceCoverage:
    """The coverage of all entries."""
    outcomes: Counter[str] = Counter()
    retried = 0
    for status, is_outcome, count in connection.execute(_COUNTS):
        if is_outcome:
            outcomes[status] += count
        else:
            retried += count
    completed, failed, omitted = (
        outcomes[status]
        for status in (EntryStatus.COMPLETED, EntryStatus.FAILED, EntryStatus.OMITTED)
    )
    unresolved = None
    if expected is not None:
        # A file can hold a rollout more than once, and so more than were expected.
        unresolved = max(expected - completed - failed - omitted, 0)
    return SourceCoverage(
        expected=expected,
        completed=completed,
        failed=failed,
        omitted=omitted,
        unresolved=unresolved,
        unreadable=outcomes[EntryStatus.UNREADABLE],
        retried=retried,
        inputs=outcomes[EntryStatus.INPUT],
    )


MOST_CAUSES = 100


class KindCount(msgspec.Struct, frozen=True):
    """A kind of failure; `meaning` is empty for an unknown kind."""

    kind: str
    failed: int
    retried: int
    meaning: str


class CauseCount(msgspec.Struct, frozen=True):
    """Failures that only differ in names and numbers. `entries` = `failed` + `retried`."""

    id: int
    kind: str
    text: str
    entries: int
    failed: int
    retried: int
    example: str


class Failures(msgspec.Struct, frozen=True):
    """The kinds and the most frequent causes, the most frequent first."""

    kinds: tuple[KindCount, ...]
    causes: tuple[CauseCount, ...]


def failures(connection: sqlite3.Connection, wanted: Filter) -> Failures:
    """The failures of the entries that match the filter, outcomes or not."""
    where, values = wanted.where(any_attempt=True)
    # An outcome is a better example than an attempt that was retried.
    rows = connection.execute(
        "SELECT entry.kind, entry.cause, count(*), sum(is_outcome), "  # noqa: S608 - see Filter
        "coalesce(min(entry.id) FILTER (WHERE is_outcome), min(entry.id)) "
        f"FROM entry WHERE entry.kind IS NOT NULL AND {where} GROUP BY entry.kind, entry.cause",
        values,
    ).fetchall()
    ended: Counter[str] = Counter()
    entries: Counter[str] = Counter()
    for kind, _, count, outcomes, _ in rows:
        ended[kind] += outcomes
        entries[kind] += count
    known = (row for row in rows if row[1] is not None)
    frequent = sorted(known, key=lambda row: (-row[2], row[1]))[:MOST_CAUSES]
    texts = texts_by_id(connection, "id, text FROM cause", [cause for _, cause, *_ in frequent])
    return Failures(
        tuple(
            KindCount(kind, ended[kind], count - ended[kind], meaning_of(kind))
            for kind, count in sorted(entries.items(), key=lambda item: (-item[1], item[0]))
        ),
        tuple(
            CauseCount(
                cause,
                kind,
                texts.get(cause, ""),
                count,
                outcomes,
                count - outcomes,
                str(EntryId.of(example)),
            )
            for kind, cause, count, outcomes, example in frequent
        ),
    )


MOST_VALUES = 200
_COLUMNS = ("status", "kind", "agent", "domain", "model", "ending", "difficulty")
_LINES = (
    f"SELECT group_concat(json_array(is_outcome, {', '.join(_COLUMNS)}), char(10)) "  # noqa: S608
    "FROM entry"
)
_LISTED = """
SELECT name, count(*) AS entries FROM {}
WHERE entry NOT IN (SELECT id FROM entry WHERE is_outcome = 0)
GROUP BY name ORDER BY entries DESC, name LIMIT ?
"""
_FIELDS = "SELECT name, records FROM field WHERE records > 0 ORDER BY records DESC, name LIMIT ?"
Value = str | int


class Facet(msgspec.Struct, frozen=True):
    value: Value
    count: int


class FieldFacet(msgspec.Struct, frozen=True):
    """A name of `fields`, and how many records have it."""

    name: str
    records: int


class Facets(msgspec.Struct, frozen=True):
    """The values of each column, the most frequent first; `difficulty` in numeric order.

    Kinds that only retried attempts have are included with a count of 0.
    """

    status: tuple[Facet, ...]
    kind: tuple[Facet, ...]
    agent: tuple[Facet, ...]
    domain: tuple[Facet, ...]
    model: tuple[Facet, ...]
    ending: tuple[Facet, ...]
    difficulty: tuple[Facet, ...]
    tool: tuple[Facet, ...]
    sign: tuple[Facet, ...]
    version: tuple[Facet, ...]
    fields: tuple[FieldFacet, ...]


def facets(connection: sqlite3.Connection) -> Facets:
    """The facets of the whole source."""
    counts: dict[str, Counter[Value]] = {column: Counter() for column in _COLUMNS}
    (lines,) = connection.execute(_LINES).fetchone()
    for line, count in Counter(lines.split("\n") if lines else ()).items():
        is_outcome, status, kind, *others = msgspec.json.decode(line)
        counts["status"][status if is_outcome else EntryStatus.RETRIED.value] += count
        if kind:
            counts["kind"][kind] += count if is_outcome else 0
        if is_outcome:
            for column, value in zip(_COLUMNS[2:], others, strict=True):
                if value not in ("", None):
                    counts[column][value] += count
    difficulty = sorted(counts.pop("difficulty").items())[:MOST_VALUES]
    found = {column: _ordered(values) for column, values in counts.items()}
    return Facets(
        difficulty=tuple(Facet(value, count) for value, count in difficulty),
        tool=_listed(connection, "tool"),
        sign=_listed(connection, "sign"),
        version=_listed(connection, "version"),
        fields=tuple(FieldFacet(*row) for row in connection.execute(_FIELDS, (MOST_VALUES,))),
        **found,
    )


def _listed(connection: sqlite3.Connection, table: str) -> tuple[Facet, ...]:
    rows = connection.execute(_LISTED.format(table), (MOST_VALUES,))
    return tuple(Facet(*row) for row in rows)


def _ordered(counts: Counter[Value]) -> tuple[Facet, ...]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    return tuple(Facet(value, count) for value, count in ordered[:MOST_VALUES])
