"""What is known of a task from elsewhere than the record at hand.

A record of a failure often says no more than the number of its task. Its inputs do, which are read
before anything else; without them, other records of the same task may.
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Iterable

from rollgym.viewer.summary import TaskFacts

_REMEMBERED = 8192
_FROM_INPUTS = "SELECT task_key, title, agent, domain, difficulty FROM task WHERE task = ?"
_FROM_ANOTHER = (
    "SELECT task_key, title, agent, domain, difficulty FROM entry JOIN words ON entry = id "
    "WHERE task = ? AND task_key IS NOT NULL LIMIT 1"
)


class KnownFacts:
    """The facts of tasks from the inputs, those asked for lately in memory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._recent: OrderedDict[int, TaskFacts] = OrderedDict()

    def of(self, task: int) -> TaskFacts | None:
        """None where the inputs have no such task."""
        found = self._recent.get(task)
        if found is None:
            found = self._looked_up(task)
        else:
            self._recent.move_to_end(task)
        return found

    def forget(self) -> None:
        """The inputs have changed."""
        self._recent.clear()

    def _looked_up(self, task: int) -> TaskFacts | None:
        facts = _found(self._connection, _FROM_INPUTS, task)
        if facts is None:
            return None
        self._recent[task] = facts
        if len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        return facts


def known_facts(connection: sqlite3.Connection, task: int) -> TaskFacts | None:
    """What the inputs say of a task, or else another record; None where neither does."""
    return _found(connection, _FROM_INPUTS, task) or _found(connection, _FROM_ANOTHER, task)


def lend_facts(connection: sqlite3.Connection, orphans: Iterable[tuple[int, int]]) -> None:
    """Give entries, by their ids and tasks, what another entry of their task says of it."""
    for entry, task in orphans:
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


def spread_facts(connection: sqlite3.Connection) -> None:
    """Inputs came after records of their tasks: give those what the inputs say."""
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


def _found(connection: sqlite3.Connection, statement: str, task: int) -> TaskFacts | None:
    row = connection.execute(statement, (task,)).fetchone()
    if row is None:
        return None
    key, title, agent, domain, difficulty = row
    return TaskFacts(
        key=key, title=title, agent=agent or "", domain=domain or "", difficulty=difficulty
    )
