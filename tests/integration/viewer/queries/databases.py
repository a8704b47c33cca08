"""Indexes made by hand: a database of the real schema with the rows that a test is about."""

import json
import sqlite3
from importlib.resources import files
from typing import Any

from rollgym.viewer.summary import Scalar

COLUMNS = (
    *("id", "position", "length", "status", "is_outcome", "task", "repeat", "attempt", "reward"),
    *("success", "kind", "cause", "steps", "tool_calls", "input_tokens", "output_tokens"),
    *("seconds", "started", "model", "ending", "task_key", "agent", "domain", "difficulty"),
)


class Rows:
    """Adds entries to an index, each as much as a test says of it."""

    def __init__(self, path: str = ":memory:") -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.executescript(
            files("rollgym.viewer.index").joinpath("schema.sql").read_text("utf-8")
        )
        self.connection.execute("INSERT INTO about VALUES ('version', 1)")
        self._end = 0

    def add(
        self,
        record: int,
        *,
        part: int = 0,
        title: str = "",
        detail: str = "",
        fields: dict[str, Scalar] | None = None,
        tools: dict[str, int] | None = None,
        **columns: Any,
    ) -> None:
        number = part << 32 | record
        entry: dict[str, Any] = dict.fromkeys(COLUMNS) | {
            "id": number,
            "position": self._end,
            "length": 10,
            "status": "completed",
            "is_outcome": 1,
        }
        entry |= columns
        self._end = entry["position"] + entry["length"] + 1
        marks = ", ".join("?" * len(COLUMNS))
        self.connection.execute(f"INSERT INTO entry VALUES ({marks})", [*entry.values()])
        self.connection.execute(
            "INSERT INTO words VALUES (?, ?, ?, ?)",
            (number, title, detail, json.dumps(fields or {})),
        )
        self.connection.executemany(
            "INSERT INTO tool VALUES (?, ?, ?)",
            [(name, number, calls) for name, calls in (tools or {}).items()],
        )
        for name in fields or {}:
            self.connection.execute(
                "INSERT INTO field VALUES (?, 1) "
                "ON CONFLICT (name) DO UPDATE SET records = records + 1",
                (name,),
            )

    def cause(self, number: int, kind: str, text: str) -> None:
        self.connection.execute("INSERT INTO cause VALUES (?, ?, ?)", (number, kind, text))

    def changed(self) -> None:
        self.connection.execute("UPDATE about SET value = value + 1 WHERE name = 'version'")
