"""What belongs to an entry: the other repeats of its task, and all attempts at its rollout."""

import sqlite3

import msgspec

from rollgym.viewer.index import EntryId
from rollgym.viewer.queries.blocked import IS_BLOCKED

MOST_RELATED = 1_000


class Repeat(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of one repeat of a task. `blocked` tells that a page blocked it."""

    id: str
    repeat: int | None
    attempt: int | None
    status: str
    reward: float | None
    success: bool | None
    blocked: bool = False


class AttemptLine(msgspec.Struct, frozen=True):
    """One attempt at a rollout."""

    id: str
    attempt: int | None
    status: str
    kind: str | None
    detail: str
    seconds: float | None
    started: float | None


class Related(msgspec.Struct, frozen=True):
    """Of one entry, itself included; empty where it names no task, or no repeat of it."""

    standing: bool
    siblings: tuple[Repeat, ...]
    attempts: tuple[AttemptLine, ...]


def related(connection: sqlite3.Connection, entry: EntryId) -> Related:
    """Raises KeyError where there is no such entry."""
    found = connection.execute(
        "SELECT standing, task, repeat FROM entry WHERE id = ?", (entry.number,)
    ).fetchone()
    if found is None:
        raise KeyError(str(entry))
    standing, task, repeat = found
    return Related(
        bool(standing),
        tuple(repeats(connection, task)) if task is not None else (),
        tuple(_attempts(connection, task, repeat)) if None not in (task, repeat) else (),
    )


def repeats(connection: sqlite3.Connection, task: int) -> list[Repeat]:
    """The standing entries of a task, in the order of their repeats."""
    rows = connection.execute(
        f"SELECT id, repeat, attempt, status, reward, success, {IS_BLOCKED} FROM entry "  # noqa: S608
        "WHERE task = ? AND standing ORDER BY repeat NULLS LAST, id LIMIT ?",
        (task, MOST_RELATED),
    )
    return [
        Repeat(
            str(EntryId.of(number)),
            repeat,
            attempt,
            status,
            reward,
            None if success is None else bool(success),
            bool(blocked),
        )
        for number, repeat, attempt, status, reward, success, blocked in rows
    ]


def _attempts(connection: sqlite3.Connection, task: int, repeat: int) -> list[AttemptLine]:
    rows = connection.execute(
        "SELECT id, attempt, status, kind, coalesce(detail, ''), seconds, started "
        "FROM entry LEFT JOIN words ON words.entry = entry.id "
        "WHERE task = ? AND repeat = ? ORDER BY attempt NULLS LAST, id LIMIT ?",
        (task, repeat, MOST_RELATED),
    )
    return [AttemptLine(str(EntryId.of(number)), *line) for number, *line in rows]
