"""Why rollouts failed: by kind, and by cause within a kind.

Both count ends (`failed`) and attempts that others followed (`retried`), so that trouble which
retries got over is seen too. With `status=failed&status=retried` and the cause, a list has exactly
the entries that were counted.
"""

import sqlite3
from collections import Counter
from collections.abc import Mapping

import msgspec

from rollgym.viewer.documents.failures import meaning_of
from rollgym.viewer.index import EntryId
from rollgym.viewer.queries.filter import Filter

MOST_CAUSES = 100


class KindCount(msgspec.Struct, frozen=True):
    """A kind of failure; `meaning` is empty for one that rollgym does not know."""

    kind: str
    failed: int
    retried: int
    meaning: str


class CauseCount(msgspec.Struct, frozen=True):
    """Failures that differ in nothing but names and numbers. `entries` = `failed` + `retried`."""

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
    """Of the entries that fit the filter, whether they stand or not."""
    where, values = wanted.where(any_attempt=True)
    # An attempt that stands is a better example than one that was made up for.
    rows = connection.execute(
        "SELECT entry.kind, entry.cause, count(*), sum(standing), "  # noqa: S608 - see Filter
        "coalesce(min(entry.id) FILTER (WHERE standing), min(entry.id)) "
        f"FROM entry WHERE entry.kind IS NOT NULL AND {where} GROUP BY entry.kind, entry.cause",
        values,
    ).fetchall()
    ended: Counter[str] = Counter()
    entries: Counter[str] = Counter()
    for kind, _, count, standing, _ in rows:
        ended[kind] += standing
        entries[kind] += count
    known = (row for row in rows if row[1] is not None)
    frequent = sorted(known, key=lambda row: (-row[2], row[1]))[:MOST_CAUSES]
    texts = _texts(connection, [cause for _, cause, *_ in frequent])
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
                standing,
                count - standing,
                str(EntryId.of(example)),
            )
            for kind, cause, count, standing, example in frequent
        ),
    )


def _texts(connection: sqlite3.Connection, causes: list[int]) -> Mapping[int, str]:
    return dict(
        connection.execute(
            "SELECT id, text FROM cause WHERE id IN (SELECT value FROM json_each(?))",
            (msgspec.json.encode(causes).decode(),),
        )
    )
