"""Which entries are asked for, and in which order: the query of every view.

A filter is made from the parameters of a URL and becomes the condition of an SQL statement over the
table `entry`. Values only ever get into a statement as parameters; names in it are our own.

*Standing.* Without `status` the entries that stand are meant: one end of each rollout. Of an entry
that does not stand another took its place, so it goes by `status=retried`, whatever it said itself;
every other status means those that stand. So each entry has one status to be found under.

*Ranges.* `min_X` and `max_X` are inclusive. Entries without the number are in no range of it. When
something began is compared in microseconds.
"""

from collections.abc import Iterator, Sequence

import msgspec

from rollgym.viewer.queries.parameters import Parameters, Query, chosen, unusable
from rollgym.viewer.summary import Status

TOKENS = "coalesce(input_tokens + output_tokens, input_tokens, output_tokens)"
"""Input and output together; what is known where only one is."""
MICROSECONDS = 1_000_000
MOMENT = f"CAST(round({{}} * {MICROSECONDS}) AS INTEGER)"
"""A time in whole microseconds, so that a portion of time begins where the one before it ends."""
MOST_ENTRIES = 500
USUAL_ENTRIES = 100
FIELD_PREFIX = "field."
BY_RECORD = "record"

NUMBERS = {
    "reward": "reward",
    "steps": "steps",
    "tool_calls": "tool_calls",
    "tokens": TOKENS,
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "seconds": "seconds",
    "difficulty": "difficulty",
    "started": "started",
    "bytes": "entry.length",
}
"""The numbers of an entry, as SQL."""
RANGES = {**NUMBERS, BY_RECORD: "entry.id"}
"""What there are ranges of. A record goes by the number of its entry, which has its part too."""
_NAMES = ("kind", "agent", "domain", "model", "ending")
_INDEXES = ("task", "repeat", "cause")
SORTS = (
    BY_RECORD,
    *("task", "repeat", "attempt", "success", "status", "title"),
    *_NAMES,
    *NUMBERS,
)
"""The columns that a list can be sorted by, besides `field.NAME`."""
_ORDERS = ("asc", "desc")
_STATUSES = tuple(status.value for status in Status)
_RANGES = tuple(f"{end}_{name}" for name in RANGES for end in ("min", "max"))
PAGING = ("sort", "order", "offset", "limit")
"""Those parameters that select nothing."""
PARAMETERS = frozenset(
    ("q", "status", "success", "tool", *_NAMES, *_INDEXES, *_RANGES, *PAGING),
)
Sql = tuple[str, tuple[str | int | float, ...]]
"""A piece of a statement with its parameters."""


class Range(msgspec.Struct, frozen=True):
    """Both ends belong to it; None leaves an end open."""

    name: str
    least: float | None = None
    most: float | None = None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader asks for; empty and None ask for nothing.

    `found` are the entries that a text search came to, as a JSON array of their numbers: set by
    `among`, since what `q` matches is not in the index.
    """

    q: str = ""
    status: tuple[str, ...] = ()
    success: bool | None = None
    kind: tuple[str, ...] = ()
    cause: tuple[int, ...] = ()
    tool: tuple[str, ...] = ()
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
        """From the parameters of a URL. Raises PageError (400) for what means nothing.

        `sorts` are the columns that this view can be sorted by, the first of them where nothing is
        asked for.
        """
        given = Parameters(query, PARAMETERS)
        return cls(
            q=given.text("q"),
            status=given.some_of("status", _STATUSES),
            success=given.truth("success"),
            kind=given.texts("kind"),
            cause=given.naturals("cause"),
            tool=given.texts("tool"),
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
        """The same, of these entries only."""
        return msgspec.structs.replace(self, found=msgspec.json.encode(list(entries)).decode())

    @property
    def is_selective(self) -> bool:
        """Whether an index of the table leads to the few entries that fit.

        Otherwise going through the table as it lies is fastest, which SQLite does not always see.
        """
        return bool(self.status or self.kind or self.cause or self.task)

    def where(self, *, any_attempt: bool = False) -> Sql:
        """The condition on `entry`. Never empty.

        `any_attempt` leaves out that an entry must stand, where no status was asked for.
        """
        pieces = [("1", ()) if any_attempt and not self.status else self._standing()]
        pieces += self._conditions()
        return (
            " AND ".join(condition for condition, _ in pieces),
            tuple(value for _, values in pieces for value in values),
        )

    def _standing(self) -> Sql:
        """Which status, and by that whether it must stand."""
        if not self.status:
            return "entry.standing = 1", ()
        ends = tuple(status for status in self.status if status != Status.RETRIED)
        condition, values = _any_of("entry.status", ends)
        standing = f"(entry.standing = 1 AND {condition})"
        if Status.RETRIED not in self.status:
            return standing, values
        return f"(entry.standing = 0 OR {standing})" if ends else "entry.standing = 0", values

    def _conditions(self) -> Iterator[Sql]:
        if self.found is not None:
            yield "entry.id IN (SELECT value FROM json_each(?))", (self.found,)
        if self.success is not None:
            yield "entry.success = ?", (self.success,)
        for name in (*_NAMES, *_INDEXES):
            if values := getattr(self, name):
                yield _any_of(f"entry.{name}", values)
        if self.tool:
            condition, values = _any_of("name", self.tool)
            yield f"entry.id IN (SELECT entry FROM tool WHERE {condition})", values  # noqa: S608
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
        # The path of a field in SQLite's JSON has no way to write these.
        if value == FIELD_PREFIX or any(mark in value for mark in '"\\'):
            raise unusable("sort", value, "the name of a field without quotes and backslashes")
        return value
    return chosen("sort", value, sorts)
