"""Task files for tests."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def task_row(name: str, **fields: Any) -> dict[str, Any]:
    return {"task_id": name, "task_name": f"Find {name}", "website": "https://a.example/"} | fields


def write_tasks(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def some_tasks(path: Path, count: int = 10) -> Path:
    """Tasks of all difficulties, on two hosts in turn."""
    rows = (
        task_row(
            f"t{number}",
            difficulty=1 + number % 9,
            website=f"https://www.{('odd', 'even')[number % 2 == 0]}.example/{number}",
        )
        for number in range(count)
    )
    return write_tasks(path, rows)
