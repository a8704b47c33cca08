"""Writing record summaries into the tables of the index, many at a time.

Nothing is looked up while a summary is added: the ids of causes are kept in memory, and which
records are outcomes is decided after a batch, for the few rollouts that have several records.

*Task facts.* A record of a failure often names only the index of its task. The run's inputs, which
are read first, know more about the task; without them, other records of the same task may.

*Outcomes.* Of several records of one rollout, a completed record comes before a failed one, a
failed one before an omitted one, and any of them before an input that was not run; then the highest
attempt wins, then the first record. Attempts that were followed by a retry are never outcomes. A
journal has one outcome for each rollout. In a file of rollouts every completed record is an
outcome, because users expect to see all rows of their file.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from rollgym.store import KeySet
from rollgym.viewer.source import EntryId, RecordRange, SourcePart, is_journal
from rollgym.viewer.summary import (
    DETAIL_LIMIT,
    FIELD_LIMIT,
    MOST_FIELDS,
    MOST_TOOLS,
    MOST_VERSIONS,
    TITLE_LIMIT,
    EntryStatus,
    RecordSummary,
    Scalar,
    TaskFacts,
)
from rollgym.viewer.values import LARGEST_INTEGER, fields_of_record

_RANKS: dict[str, int] = {
    EntryStatus.COMPLETED: 0,
    EntryStatus.FAILED: 1,
    EntryStatus.OMITTED: 2,
    EntryStatus.INPUT: 3,
}


class OutcomeCandidate(NamedTuple):
    """A record that may be its rollout's outcome."""

    id: int
    status: str
    attempt: int | None
    in_journal: bool

    @property
    def rank(self) -> int | None:
        return _RANKS.get(self.status)


def outcome_ids(candidates: Sequence[OutcomeCandidate]) -> set[int]:
    """The ids of the records of one rollout that are its outcomes."""
    ranked = [(each.rank, each) for each in candidates if each.rank is not None]
    if not ranked:
        return set()
    least = min(rank for rank, _ in ranked)
    best = [each for rank, each in ranked if rank == least]
    if least == _RANKS[EntryStatus.COMPLETED]:
        free = {each.id for each in best if not each.in_journal}
        if free:
            return free
    return {max(best, key=lambda each: (each.attempt or 0, -each.id)).id}


class OutcomeSelector:
    """Keeps `entry.is_outcome` correct while records are added and removed."""

    def __init__(self, connection: sqlite3.Connection, parts: Sequence[SourcePart]) -> None:
        """Reads which rollouts the index has."""
        self._connection = connection
        self._parts = parts
        self._seen = KeySet()
        self._several: set[tuple[int, int]] = set()
        for task, repeat in connection.execute(
            "SELECT DISTINCT task, repeat FROM entry WHERE task IS NOT NULL AND repeat IS NOT NULL"
        ):
            self._seen.add(task, repeat)

    def note(self, summary: RecordSummary) -> bool:
        """Note a record that is about to be added; returns whether it may be an outcome."""
        if summary.status is EntryStatus.RETRIED:
            return False
        task, repeat = summary.task, summary.repeat
        if task is not None and repeat is not None and not self._seen.add(task, repeat):
            self._several.add((task, repeat))
        return True

    def reconsider(self, task: int | None, repeat: int | None) -> None:
        """Note that a record of this rollout was removed."""
        if task is not None and repeat is not None:
            self._several.add((task, repeat))

    def choose(self) -> None:
        """Choose the outcomes of rollouts with several records, which must be in the table."""
        if not self._several:
            return
        changes: list[tuple[int, int]] = []
        journals = {number for number, part in enumerate(self._parts) if is_journal(part.path)}
        for key in self._several:
            rows = self._connection.execute(
                "SELECT id, status, attempt, is_outcome FROM entry WHERE task = ? AND repeat = ?",
                key,
            ).fetchall()
            chosen = outcome_ids(
                [
                    OutcomeCandidate(number, status, attempt, EntryId.of(number).part in journals)
                    for number, status, attempt, _ in rows
                ]
            )
            for number, _, _, was_outcome in rows:
                if (number in chosen) != bool(was_outcome):
                    changes.append((number in chosen, number))
        self._connection.executemany("UPDATE entry SET is_outcome = ? WHERE id = ?", changes)
        self._several.clear()


_FROM_INPUTS = "SELECT task_key, title, agent, domain, difficulty FROM task WHERE task = ?"
_FROM_ANOTHER = (
    "SELECT task_key, title, agent, domain, difficulty FROM entry JOIN words ON entry = id "
    "WHERE task = ? AND task_key IS NOT NULL LIMIT 1"
)


def facts_from_inputs(connection: sqlite3.Connection, task: int) -> TaskFacts | None:
    """The facts of a task; None where the inputs do not have it."""
    return _select_facts(connection, _FROM_INPUTS, task)


def find_task_facts(connection: sqlite3.Connection, task: int) -> TaskFacts | None:
    """The facts of a task from the inputs, or else from another record of it; else None."""
    found = facts_from_inputs(connection, task)
    return found or _select_facts(connection, _FROM_ANOTHER, task)


def copy_facts_from_entries(
    connection: sqlite3.Connection, without_facts: Iterable[tuple[int, int]]
) -> None:
    """Copy task facts to entries without them (by id and task) from other entries of the task."""
    for entry, task in without_facts:
        found = connection.execute(_FROM_ANOTHER, (task,)).fetchone()
        if found is None:
            continue
        key, title, agent, domain, difficulty = found
        connection.execute(
            "UPDATE entry SET task_key = ?, agent = coalesce(agent, ?), "
            "domain = coalesce(domain, ?), difficulty = coalesce(difficulty, ?) WHERE id = ?",
            (key, agent, domain, difficulty, entry),
        )
        connection.execute("UPDATE words SET title = ? WHERE entry = ?", (title, entry))


def copy_facts_from_inputs(connection: sqlite3.Connection) -> None:
    """Copy task facts from inputs that were read after records of their tasks."""
    connection.execute(
        "UPDATE words SET title = task.title FROM entry JOIN task ON task.task = entry.task "
        "WHERE entry.id = words.entry AND words.title = ''"
    )
    connection.execute(
        "UPDATE entry SET task_key = task.task_key, "
        "agent = coalesce(entry.agent, nullif(task.agent, '')), "
        "domain = coalesce(entry.domain, nullif(task.domain, '')), "
        "difficulty = coalesce(entry.difficulty, task.difficulty) "
        "FROM task WHERE task.task = entry.task AND entry.task_key IS NULL"
    )


def _select_facts(connection: sqlite3.Connection, statement: str, task: int) -> TaskFacts | None:
    row = connection.execute(statement, (task,)).fetchone()
    if row is None:
        return None
    key, title, agent, domain, difficulty = row
    return TaskFacts(
        key=key, title=title, agent=agent or "", domain=domain or "", difficulty=difficulty
    )


_BATCH = 512
_NAME_LIMIT = 120
_MOST_CAUSES = 10_000
_ENTRY = f"INSERT INTO entry VALUES ({', '.join('?' * 24)})"  # noqa: S608 - only marks
_WORDS = "INSERT INTO words VALUES (?, ?, ?, ?)"
_TOOL = "INSERT INTO tool VALUES (?, ?, ?)"
_SIGN = "INSERT INTO sign VALUES (?, ?)"
_VERSION = "INSERT OR IGNORE INTO version VALUES (?, ?, ?)"
_FIELD = (
    "INSERT INTO field VALUES (?, ?) "
    "ON CONFLICT (name) DO UPDATE SET records = records + excluded.records"
)
_BESIDE = ("words", "tool", "sign", "version")
"""Tables with rows of an entry."""
_ENCODER = msgspec.json.Encoder()
_Value = str | int | float | None


class EntryWriter:
    """Adds and removes entries, inside the caller's transaction."""

    def __init__(self, connection: sqlite3.Connection, parts: Sequence[SourcePart]) -> None:
        self.count = 0
        """Entries that were added, minus those removed."""
        self.changed = False
        self._connection = connection
        self._outcomes = OutcomeSelector(connection, parts)
        self._causes: dict[tuple[str, str], int] = {}
        self._entries: list[tuple[_Value, ...]] = []
        self._words: list[tuple[_Value, ...]] = []
        self._tools: list[tuple[_Value, ...]] = []
        self._signs: list[tuple[str, int]] = []
        self._versions: list[tuple[_Value, ...]] = []
        self._fields: Counter[str] = Counter()
        self._without_facts: list[tuple[int, int]] = []

    def add(self, number: int, place: RecordRange, summary: RecordSummary) -> None:
        """Add the summary of a record. It is in the tables after `flush` at the latest."""
        facts = summary.facts
        self._entries.append(
            (
                number,
                place.position,
                place.length,
                summary.status.value,
                self._outcomes.note(summary),
                _integer(summary.task),
                _integer(summary.repeat),
                _integer(summary.attempt),
                summary.reward,
                summary.success,
                _name(summary.kind),
                self._cause(summary.kind, summary.cause),
                _integer(summary.steps),
                _integer(summary.tool_calls),
                _integer(summary.input_tokens),
                _integer(summary.output_tokens),
                summary.seconds,
                summary.started,
                _name(summary.model),
                _name(summary.ending),
                _name(facts.key),
                _name(facts.agent),
                _name(facts.domain),
                _integer(facts.difficulty),
            )
        )
        fields = dict(_short_fields(summary))
        title, detail = _text(facts.title, TITLE_LIMIT), _text(summary.detail, DETAIL_LIMIT)
        self._words.append((number, title, detail, _ENCODER.encode(fields).decode()))
        self._fields.update(fields.keys())
        for name, calls in islice(summary.tools.items(), MOST_TOOLS):
            self._tools.append((_text(name, _NAME_LIMIT), number, _integer(calls)))
        for name, turns in islice(summary.versions.items(), MOST_VERSIONS):
            self._versions.append((_text(name, _NAME_LIMIT), number, turns))
        self._signs += ((_text(name, _NAME_LIMIT), number) for name in summary.signs)
        if summary.task is not None and not facts.key:
            self._without_facts.append((number, summary.task))
        self.count, self.changed = self.count + 1, True
        if len(self._entries) >= _BATCH:
            self.flush()

    def remove(self, number: int) -> None:
        """Remove an entry, if it exists."""
        self.flush()
        found = self._connection.execute(
            "SELECT task, repeat, fields FROM entry JOIN words ON entry = id WHERE id = ?",
            (number,),
        ).fetchone()
        if found is None:
            return
        task, repeat, fields = found
        names = [(name,) for name in fields_of_record(fields.encode())]
        self._connection.executemany("UPDATE field SET records = records - 1 WHERE name = ?", names)
        self._connection.execute("DELETE FROM field WHERE records <= 0")
        for table, column in (("entry", "id"), *((each, "entry") for each in _BESIDE)):
            self._connection.execute(
                f"DELETE FROM {table} WHERE {column} = ?",  # noqa: S608 - names of our own
                (number,),
            )
        self._outcomes.reconsider(task, repeat)
        self.count, self.changed = self.count - 1, True

    def flush(self) -> None:
        """Write all pending rows into the tables."""
        self._connection.executemany(_ENTRY, self._entries)
        self._connection.executemany(_WORDS, self._words)
        self._connection.executemany(_TOOL, self._tools)
        self._connection.executemany(_SIGN, self._signs)
        self._connection.executemany(_VERSION, self._versions)
        self._connection.executemany(_FIELD, self._fields.items())
        copy_facts_from_entries(self._connection, self._without_facts)
        self._fields.clear()
        listed = (self._tools, self._signs, self._versions)
        for pending in (self._entries, self._words, *listed, self._without_facts):
            pending.clear()
        self._outcomes.choose()

    def _cause(self, kind: str, cause: str) -> int | None:
        if not kind and not cause:
            return None
        key = (_text(kind, _NAME_LIMIT), _text(cause, TITLE_LIMIT))
        known = self._causes.get(key)
        if known is None:
            known = self._new_cause(key)
        return known

    def _new_cause(self, key: tuple[str, str]) -> int:
        if len(self._causes) >= _MOST_CAUSES:
            self._causes.clear()
        self._connection.execute("INSERT OR IGNORE INTO cause (kind, text) VALUES (?, ?)", key)
        found = self._connection.execute(
            "SELECT id FROM cause WHERE kind = ? AND text = ?", key
        ).fetchone()
        self._causes[key] = int(found[0])
        return self._causes[key]


def _integer(value: int | None) -> int | None:
    """None for a number that does not fit into 64 bits."""
    return value if value is not None and -LARGEST_INTEGER <= value <= LARGEST_INTEGER else None


def _name(text: str) -> str | None:
    return _text(text, _NAME_LIMIT) or None


def _text(text: str, limit: int) -> str:
    text = text[:limit]
    # Python strings can hold half of a surrogate pair, databases cannot.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _short_fields(summary: RecordSummary) -> Iterator[tuple[str, Scalar]]:
    for name, value in islice(summary.fields.items(), MOST_FIELDS):
        match value:
            case str():
                yield _text(name, _NAME_LIMIT), _text(value, FIELD_LIMIT)
            case int() if _integer(value) is None:
                pass
            case _:
                yield _text(name, _NAME_LIMIT), value
