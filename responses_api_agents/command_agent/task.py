"""What an agent gets of a task: the request, and no more.

The other fields of a row are for the verifier, such as the expected answer. An agent reads them
only where a setting names them.
"""

from collections.abc import Sequence
from typing import Any

from rollgym.records import Row, RowError, TaskError


def task_object(params: dict[str, Any], row: Row | None, fields: Sequence[str]) -> dict[str, Any]:
    """The task as JSON: the parameters, and these fields of the row. Raises TaskError."""
    task = dict(params)
    for name in fields:
        try:
            value = row.get(name, object) if row is not None else None
        except RowError as error:
            raise TaskError(str(error)) from error
        if value is not None:
            task[name] = value
    return task


def task_text(params: dict[str, Any]) -> str:
    """The texts of the messages of a task, with an empty line between them."""
    given = params.get("input")
    texts = [str(params["instructions"])] if params.get("instructions") else []
    if isinstance(given, str):
        texts.append(given)
    items = given if isinstance(given, list) else []
    said = [item for item in items if isinstance(item, dict) and "role" in item]
    texts += [_text(item.get("content")) for item in said]
    return "\n\n".join(filter(None, texts))


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(str(text) for text in texts if text)
