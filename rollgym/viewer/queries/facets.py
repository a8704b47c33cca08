"""What there is to filter by: the values of each column, and how many standing entries have each.

All columns are read in one pass: SQLite writes those of an entry as one short JSON text, of which
there are few different ones, so counting the texts is nearly all the work.
"""

import sqlite3
from collections import Counter

import msgspec

from rollgym.viewer.summary import Status

MOST_VALUES = 200
_COLUMNS = ("status", "kind", "agent", "domain", "model", "ending", "difficulty")
_LINES = (
    f"SELECT group_concat(json_array(standing, {', '.join(_COLUMNS)}), char(10)) "  # noqa: S608
    "FROM entry"
)
_TOOLS = """
SELECT name, count(*) AS entries FROM tool
WHERE entry NOT IN (SELECT id FROM entry WHERE standing = 0)
GROUP BY name ORDER BY entries DESC, name LIMIT ?
"""
_FIELDS = "SELECT name, records FROM field WHERE records > 0 ORDER BY records DESC, name LIMIT ?"
Value = str | int
_Line = tuple[int, str, *tuple[Value | None, ...]]


class Facet(msgspec.Struct, frozen=True):
    value: Value
    count: int


class FieldFacet(msgspec.Struct, frozen=True):
    """A name of `fields`, and how many records have it."""

    name: str
    records: int


class Facets(msgspec.Struct, frozen=True):
    """The most frequent values of each, the most frequent first; `difficulty` in its own order.

    Kinds are there too that only attempts have which others followed: their count is 0.
    """

    status: tuple[Facet, ...]
    kind: tuple[Facet, ...]
    agent: tuple[Facet, ...]
    domain: tuple[Facet, ...]
    model: tuple[Facet, ...]
    ending: tuple[Facet, ...]
    difficulty: tuple[Facet, ...]
    tool: tuple[Facet, ...]
    fields: tuple[FieldFacet, ...]


def facets(connection: sqlite3.Connection) -> Facets:
    """Of the whole source."""
    counts: dict[str, Counter[Value]] = {column: Counter() for column in _COLUMNS}
    (lines,) = connection.execute(_LINES).fetchone()
    for line, count in Counter(lines.split("\n") if lines else ()).items():
        standing, status, kind, *others = msgspec.json.decode(line)
        counts["status"][status if standing else Status.RETRIED.value] += count
        if kind:
            counts["kind"][kind] += count if standing else 0
        if standing:
            for column, value in zip(_COLUMNS[2:], others, strict=True):
                if value not in ("", None):
                    counts[column][value] += count
    difficulty = sorted(counts.pop("difficulty").items())[:MOST_VALUES]
    found = {column: _ordered(values) for column, values in counts.items()}
    return Facets(
        difficulty=tuple(Facet(value, count) for value, count in difficulty),
        tool=tuple(Facet(*row) for row in connection.execute(_TOOLS, (MOST_VALUES,))),
        fields=tuple(FieldFacet(*row) for row in connection.execute(_FIELDS, (MOST_VALUES,))),
        **found,
    )


def _ordered(counts: Counter[Value]) -> tuple[Facet, ...]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    return tuple(Facet(value, count) for value, count in ordered[:MOST_VALUES])
