"""What a row says of its task: what is asked, by whom it is answered, and where it belongs.

Rows of rollouts, inputs of runs and tasks of the web say it in different places. The key of a task
is made from its `task_id`; where it has none, from what is asked: the roles and texts of the
prompt, so that it is the same in files that write the same prompt in different ways.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from rollgym.records import Row
from rollgym.rollouts.fields import AGENT, PARAMS
from rollgym.viewer.formats.conversation import Content, content_text
from rollgym.viewer.formats.scalars import either, one_line
from rollgym.viewer.summary import TITLE_LIMIT, TaskFacts
from rollgym.viewer.values import (
    ABSENT,
    Fields,
    count_of,
    fields_of,
    items_of,
    number_of,
    read,
    text_of,
)

TASK_ID = "task_id"
TASK = "task"
DOMAIN = "domain"
DIFFICULTY = "difficulty"
MESSAGES = "messages"
QUESTIONS = ("task_name", "question", "prompt", "problem")
"""Fields that hold what is asked, where there is no conversation."""
_NAME_LIMIT = 120


class _Message(msgspec.Struct):
    role: str = ""
    content: msgspec.Raw = ABSENT


class _Asked(NamedTuple):
    role: str
    said: str


_MESSAGE = msgspec.json.Decoder(_Message)
_MESSAGES = msgspec.json.Decoder(list[_Message])
_CONTENT = msgspec.json.Decoder(Content)


def facts_of_row(row: Row) -> TaskFacts:
    """The facts of a task, from its input row or from the row of one of its rollouts."""
    return facts_of_fields(row.fields)


def facts_of_fields(fields: Fields) -> TaskFacts:
    """The facts of a task, each empty where the fields do not say it."""
    task = fields_of(fields.get(TASK)) or {}
    asked = _asked(fields) or _asked(task)
    users = [each.said for each in asked if each.role == "user" and each.said]
    title = users[-1] if users else next((each.said for each in asked if each.said), "")
    return TaskFacts(
        key=_key(_identifier(fields) or _identifier(task), asked),
        title=one_line(title, TITLE_LIMIT),
        agent=_name((fields_of(fields.get(AGENT)) or {}).get("name")),
        domain=_name(fields.get(DOMAIN)) or _name(task.get(DOMAIN)),
        difficulty=either(_level(fields.get(DIFFICULTY)), _level(task.get(DIFFICULTY))),
    )


def _asked(fields: Fields) -> list[_Asked]:
    """What the agent is asked: its prompt, or the one field that holds the question."""
    params = fields_of(fields.get(PARAMS)) or {}
    asked = []
    if instructions := text_of(params.get("instructions")):
        asked.append(_Asked("system", instructions))
    asked += _messages(params.get("input"))
    return asked or [*_before_the_answer(fields.get(MESSAGES))] or _question(fields)


def _messages(raw: msgspec.Raw | None) -> list[_Asked]:
    if raw is None:
        return []
    if said := text_of(raw):
        return [_Asked("user", said)]
    messages = read(raw, _MESSAGES)
    if messages is None:  # one of them is odd: the others are not
        items = items_of(raw) or []
        messages = [found for item in items if (found := read(item, _MESSAGE)) is not None]
    return [_Asked(each.role, _said(each.content)) for each in messages]


def _before_the_answer(raw: msgspec.Raw | None) -> Iterator[_Asked]:
    """Of a whole conversation, what came before the agent first spoke."""
    for each in _messages(raw):
        if each.role == "assistant":
            return
        yield each


def _question(fields: Fields) -> list[_Asked]:
    for name in QUESTIONS:
        asked = _messages(fields.get(name))
        if asked:
            return asked
    return []


def _said(content: msgspec.Raw) -> str:
    if not content:
        return ""
    known = read(content, _CONTENT)
    if known is None:
        return bytes(content).decode("utf-8", "replace")
    return content_text(known)


def _identifier(fields: Fields) -> str:
    raw = fields.get(TASK_ID)
    numbered = count_of(raw)
    return text_of(raw) or "" if numbered is None else str(numbered)


def _key(identifier: str, asked: list[_Asked]) -> str:
    if not identifier and not asked:
        return ""
    digest = blake2b(digest_size=8)
    for word in ("id", identifier) if identifier else (word for each in asked for word in each):
        digest.update(word.encode("utf-8", "replace") + b"\0")
    return digest.hexdigest()


def _name(raw: msgspec.Raw | None) -> str:
    return (text_of(raw) or "")[:_NAME_LIMIT]


def _level(raw: msgspec.Raw | None) -> int | None:
    level = number_of(raw)
    return int(level) if level is not None and level.is_integer() and abs(level) < 1e9 else None
