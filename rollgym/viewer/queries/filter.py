"""Filters: which entries a view shows, and in which order.

A filter is made from the parameters of a URL and becomes the condition of an SQL statement over the
table `entry`. Values enter statements as parameters only; all names in statements are constants of
this package. An empty value selects nothing, as forms send it. Any other value that cannot be used
is rejected with a message that says what can: a filter that is silently ignored would show the
wrong rollouts.

*Outcomes.* Without `status`, a filter selects outcomes: one entry for each rollout. An entry that
is not an outcome was superseded by another one and has the status `retried`, whatever its record
says. Every other status selects outcomes. So each entry is found under exactly one status.

*Ranges.* `min_X` and `max_X` are inclusive. Entries without the number are in no range of it. Start
times are compared in microseconds.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from http import HTTPStatus
from math import isfinite
from typing import TypeVar

import msgspec

from rollgym.suggestions import suggestion
from rollgym.viewer.errors import RequestError
from rollgym.viewer.summary import EntryStatus
from rollgym.viewer.values import LARGEST_INTEGER

Query = Mapping[str, Sequence[str]]
"""Each parameter with its values, in the order of the URL."""

MOST_VALUES = 200
LONGEST_VALUE = 500
_SHOWN = 80
_T = TypeVar("_T")


class Parameters:
    """The values of a query that are not empty. All methods raise RequestError (400)."""

    def __init__(self, query: Query, names: Collection[str]) -> None:
        """`names` are the allowed parameters."""
        self._given: dict[str, tuple[str, ...]] = {}
        for name, values in query.items():
            if name not in names:
                raise _rejected(
                    f"{name[:_SHOWN]!r} is an unknown parameter{suggestion(name[:_SHOWN], names)}: "
                    f"the parameters are {', '.join(sorted(names))}"
                )
            # Repeated values are the same as one.
            kept = tuple(dict.fromkeys(text for value in values if (text := value.strip())))
            if len(kept) > MOST_VALUES:
                raise _rejected(f"{name} is given {len(kept)} times: give at most {MOST_VALUES}")
            for value in kept:
                if len(value) > LONGEST_VALUE:
                    raise invalid(name, value, f"at most {LONGEST_VALUE} characters")
                if "\0" in value:  # SQLite ends a text there
                    raise invalid(name, value, "a text without the NUL character")
            self._given[name] = kept

    def texts(self, name: str) -> tuple[str, ...]:
        return self._given.get(name, ())

    def text(self, name: str) -> str:
        """The single value; empty where there is none."""
        values = self.texts(name)
        if len(values) > 1:
            raise _rejected(f"{name} is given {len(values)} times: give it once")
        return values[0] if values else ""

    def one_of(self, name: str, allowed: Sequence[str], default: str) -> str:
        return chosen(name, self.text(name), allowed) if self.text(name) else default

    def some_of(self, name: str, allowed: Sequence[str]) -> tuple[str, ...]:
        return tuple(chosen(name, value, allowed) for value in self.texts(name))

    def flag(self, name: str) -> bool | None:
        value = self.text(name)
        return None if not value else chosen(name, value, ("true", "false")) == "true"

    def naturals(self, name: str) -> tuple[int, ...]:
        return tuple(natural(name, value) for value in self.texts(name))

    def natural(self, name: str, default: int, least: int = 0, most: int = LARGEST_INTEGER) -> int:
        value = self.text(name)
        if not value:
            return default
        allowed = f"a whole number from {least}" + (f" to {most}" if most < LARGEST_INTEGER else "")
        number = _read(name, value, _natural, allowed)
        if not least <= number <= most:
            raise invalid(name, value, allowed)
        return number

    def number(self, name: str) -> float | None:
        value = self.text(name)
        return _read(name, value, _finite, "a finite number") if value else None


def natural(name: str, value: str) -> int:
    """A whole number of at least 0. Raises RequestError."""
    return _read(name, value, _natural, "a whole number")


def chosen(name: str, value: str, allowed: Sequence[str]) -> str:
    """The value, if it is allowed. Raises RequestError."""
    if value not in allowed:
        close = suggestion(value[:_SHOWN], allowed)
        raise invalid(name, value, f"one of {', '.join(allowed)}", close)
    return value


def invalid(name: str, value: str, allowed: str, hint: str = "") -> RequestError:
    """The error for a value that cannot be used."""
    return _rejected(f"{name}={value[:_SHOWN]!r} is not valid{hint}: give {allowed}")


def _rejected(message: str) -> RequestError:
    return RequestError(HTTPStatus.BAD_REQUEST, message)


def _read(name: str, value: str, reader: Callable[[str], _T], allowed: str) -> _T:
    try:
        return reader(value)
    except ValueError as error:
        raise invalid(name, value, allowed) from error


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) > LARGEST_INTEGER:
        raise ValueError(text)
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


TOKENS = "coalesce(input_tokens + output_tokens, input_tokens, output_tokens)"
"""Input and output tokens together, or the one that is known."""
MICROSECONDS = 1_000_000
MOMENT = f"CAST(round({{}} * {MICROSECONDS}) AS INTEGER)"
"""A time in whole microseconds, so that each period starts where the one before it ends."""
MOST_ENTRIES = 500
USUAL_ENTRIES = 100
FIELD_PREFIX = "field."
BY_RECORD = "record"

_COUNTS = ("steps", "tool_calls", "input_tokens", "output_tokens")
NUMBERS = {
    **{name: name for name in ("reward", *_COUNTS, "seconds", "difficulty", "started")},
    "tokens": TOKENS,
    "bytes": "entry.length",
}
"""The numbers of an entry, as SQL."""
RANGES = {**NUMBERS, BY_RECORD: "entry.id"}
"""The columns that have ranges. A record is its entry number, which includes the part."""
_NAMES = ("kind", "agent", "domain", "model", "ending")
_LISTED = ("tool", "sign", "version")
"""Names of which an entry has several, in tables of their own."""
_INDEXES = ("task", "repeat", "cause")
_SORTED = ("task", "repeat", "attempt", "success", "status", "title")
SORTS = (BY_RECORD, *_SORTED, *_NAMES, *NUMBERS)
"""The columns that a list can be sorted by, in addition to `field.NAME`."""
_ORDERS = ("asc", "desc")
_STATUSES = tuple(status.value for status in EntryStatus)
_RANGES = tuple(f"{end}_{name}" for name in RANGES for end in ("min", "max"))
PAGING = ("sort", "order", "offset", "limit")
"""The parameters that do not select entries."""
PARAMETERS = frozenset(("q", "status", "success", *_LISTED, *_NAMES, *_INDEXES, *_RANGES, *PAGING))
Sql = tuple[str, tuple[str | int | float, ...]]
"""Part of a statement with its parameters."""


class Range(msgspec.Struct, frozen=True):
    """A range with inclusive ends; None leaves an end open."""

    name: str
    least: float | None = None
    most: float | None = None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """The entries that a user wants to see; empty fields and None do not restrict them.

    `found` has the entries that a text search found, as a JSON array of their numbers. `among` sets
    it, because the index does not contain the text that `q` matches.
    """

    q: str = ""
    status: tuple[str, ...] = ()
    success: bool | None = None
    kind: tuple[str, ...] = ()
    cause: tuple[int, ...] = ()
    tool: tuple[str, ...] = ()
    sign: tuple[str, ...] = ()
    version: tuple[str, ...] = ()
    task: tuple[int, ...] = ()
    repeat: tuple[int, ...] = ()
    agent: tuple[str, ...] = ()
    domain: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    ending: tuple[str, ...] = ()
    ranges: tuple[Range, ...] = ()
    sort: str = BY_RECORD
    descending: bool = False
    offset: int = 0
    limit: int = USUAL_ENTRIES
    found: str | None = None

    @classmethod
    def of(cls, query: Query, *, sorts: Sequence[str] = SORTS) -> "Filter":
        """From the parameters of a URL. Raises RequestError (400) for an invalid one.

        `sorts` are the columns that the view can be sorted by; the first one is the default.
        """
        given = Parameters(query, PARAMETERS)
        return cls(
            q=given.text("q"),
            status=given.some_of("status", _STATUSES),
            success=given.flag("success"),
            kind=given.texts("kind"),
            cause=given.naturals("cause"),
            tool=given.texts("tool"),
            sign=given.texts("sign"),
            version=given.texts("version"),
            task=given.naturals("task"),
            repeat=given.naturals("repeat"),
            agent=given.texts("agent"),
            domain=given.texts("domain"),
            model=given.texts("model"),
            ending=given.texts("ending"),
            ranges=tuple(_ranges(given)),
            sort=_sort(given.text("sort"), sorts),
            descending=given.one_of("order", _ORDERS, "asc") == "desc",
            offset=given.natural("offset", 0),
            limit=given.natural("limit", USUAL_ENTRIES, 1, MOST_ENTRIES),
        )

    def among(self, entries: Sequence[int]) -> "Filter":
        """The same filter for these entries only."""
        return msgspec.structs.replace(self, found=msgspec.json.encode(list(entries)).decode())

    @property
    def is_selective(self) -> bool:
        """Whether an index of the table leads to few entries that match.

        Otherwise a full scan of the table is fastest, which SQLite does not always choose.
        """
        return bool(self.status or self.kind or self.cause or self.task)

    def where(self, *, any_attempt: bool = False) -> Sql:
        """The condition on `entry`. Never empty.

        With `any_attempt` and without a status, entries need not be outcomes.
        """
        pieces = [("1", ()) if any_attempt and not self.status else self._status_condition()]
        pieces += self._conditions()
        return (
            " AND ".join(condition for condition, _ in pieces),
            tuple(value for _, values in pieces for value in values),
        )

    def _status_condition(self) -> Sql:
        """The condition on the status, and on whether an entry is an outcome."""
        if not self.status:
            return "entry.is_outcome = 1", ()
        ends = tuple(status for status in self.status if status != EntryStatus.RETRIED)
        condition, values = _any_of("entry.status", ends)
        is_outcome = f"(entry.is_outcome = 1 AND {condition})"
        if EntryStatus.RETRIED not in self.status:
            return is_outcome, values
        return f"(entry.is_outcome = 0 OR {is_outcome})" if ends else "entry.is_outcome = 0", values

    def _conditions(self) -> Iterator[Sql]:
        if self.found is not None:
            yield "entry.id IN (SELECT value FROM json_each(?))", (self.found,)
        if self.success is not None:
            yield "entry.success = ?", (self.success,)
        for name in (*_NAMES, *_INDEXES):
            if values := getattr(self, name):
                yield _any_of(f"entry.{name}", values)
        for table in _LISTED:
            if names := getattr(self, table):
                condition, values = _any_of("name", names)
                listed = f"SELECT entry FROM {table} WHERE {condition}"  # noqa: S608 - our own
                yield f"entry.id IN ({listed})", values
        for range_ in self.ranges:
            for sign, end in ((">=", range_.least), ("<=", range_.most)):
                if end is not None:
                    form = MOMENT if range_.name == "started" else "{}"
                    number = form.format(RANGES[range_.name])
                    yield f"{number} {sign} {form.format('?')}", (end,)


def _any_of(column: str, values: tuple[str | int, ...]) -> Sql:
    return f"{column} IN ({', '.join('?' * len(values))})", values


def _ranges(given: Parameters) -> Iterator[Range]:
    for name in RANGES:
        least, most = given.number(f"min_{name}"), given.number(f"max_{name}")
        if least is not None or most is not None:
            yield Range(name, least, most)


def _sort(value: str, sorts: Sequence[str]) -> str:
    if not value:
        return sorts[0]
    if sorts is SORTS and value.startswith(FIELD_PREFIX):
        # JSON paths of SQLite cannot contain these characters.
        if value == FIELD_PREFIX or any(mark in value for mark in '"\\'):
            raise invalid("sort", value, "the name of a field without quotes and backslashes")
        return value
    return chosen("sort", value, sorts)


def texts_by_id(
    connection: sqlite3.Connection, selected: str, ids: Sequence[int]
) -> dict[int, str]:
    """The texts of these ids. `selected` is `id column, text column FROM table`."""
    column = selected.partition(",")[0]
    return dict(
        connection.execute(
            f"SELECT {selected} WHERE {column} IN (SELECT value FROM json_each(?))",  # noqa: S608
            (msgspec.json.encode(ids).decode(),),
        )
    )
