"""Tables of tasks without a file."""

from collections.abc import Iterable

from rollgym.records import Row
from webgym.tasks.file import TaskTable
from webgym.tasks.task import WebTask


def table_of(rows: Iterable[tuple[int, str, str]]) -> TaskTable:
    """Of difficulty, domain and website of each task."""
    table = TaskTable()
    for number, (difficulty, domain, website) in enumerate(rows, start=1):
        fields = {
            "task_name": "Look",
            "website": website,
            "difficulty": difficulty,
            "domain": domain,
        }
        table.add(WebTask.of(Row.of(fields), str(number)))
    return table


def table_of_difficulties(difficulties: Iterable[int]) -> TaskTable:
    return table_of(
        (difficulty, "Shopping", f"https://site{place}.example/")
        for place, difficulty in enumerate(difficulties)
    )
