from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.viewer.queries.databases import Rows


@pytest.fixture
def rows() -> Iterator[Rows]:
    """An index without entries."""
    made = Rows()
    yield made
    made.connection.close()


@pytest.fixture
def run(rows: Rows) -> Rows:
    """Two tasks with three repeats each: rewards, a failure that stands, one that was retried."""
    rows.cause(1, "tool", "the server answered HTTP …")
    common: dict[str, Any] = {"agent": "simple", "model": "small", "domain": "maths", "attempt": 1}
    first = common | {"task": 0, "task_key": "k0", "difficulty": 2, "title": "Add"}
    second = common | {"task": 1, "task_key": "k1", "difficulty": 5, "title": "Browse"}
    rows.add(1, **first, repeat=0, reward=1.0, success=1, steps=3, tool_calls=2, seconds=1.5,
             started=100.0, input_tokens=10, output_tokens=5, ending="answer",
             tools={"search": 2, "open": 1}, fields={"judge": "yes", "score.final": 3})  # fmt: skip
    rows.add(2, **first, repeat=1, reward=0.0, success=0, steps=5, tool_calls=0, seconds=2.5,
             started=101.0, input_tokens=20, ending="limit", fields={"judge": "no"})  # fmt: skip
    rows.add(3, **first, repeat=2, status="retried", is_outcome=0, kind="tool", cause=1,
             seconds=0.5, started=102.0, detail="HTTP 503")  # fmt: skip
    rows.add(4, **first | {"attempt": 2}, repeat=2, reward=0.5, success=0, steps=3, seconds=4.0,
             started=103.0, tools={"search": 1}, ending="answer")  # fmt: skip
    rows.add(5, **second, repeat=0, reward=1.0, success=1, steps=9, tool_calls=4, seconds=3.0,
             started=104.0, ending="answer", tools={"open": 4},
             fields={"score.final": 1})  # fmt: skip
    rows.add(6, **second, repeat=1, status="failed", kind="tool", cause=1, started=105.0)
    rows.add(7, **second, repeat=2, status="omitted")
    rows.add(8, status="unreadable")
    return rows
