"""What the index keeps about a row's task, and about the cause of a failure.

*Tasks.* Rows of rollouts, inputs of runs and web tasks name the same things in different places.
The key of a task is made from its `task_id`; without one, from its prompt (roles and texts), so
that it is the same in files that write the same prompt in different ways.

*Causes.* A cause is a failure message without the parts that differ from one rollout to the next:
addresses, paths, quoted names, identifiers and numbers become placeholders, so that a thousand
failures of one cause are one group. Codes stay: HTTP 503 is another cause than HTTP 429.
"""

import re
from functools import lru_cache
from hashlib import blake2b
from itertools import takewhile
from typing import NamedTuple

import msgspec

from rollgym.monitor import printable_line
from rollgym.rollouts.rows import AGENT, PARAMS
from rollgym.viewer.documents.conversation import MESSAGES
from rollgym.viewer.formats.result import Content, content_text
from rollgym.viewer.summary import TITLE_LIMIT, TaskFacts
from rollgym.viewer.values import (
    ABSENT,
    Fields,
    count_of,
    either,
    fields_of,
    items_of,
    number_of,
    one_line,
    read,
    text_of,
)

TASK_ID = "task_id"
TASK = "task"
DOMAIN = "domain"
DIFFICULTY = "difficulty"
QUESTIONS = ("task_name", "question", "prompt", "problem")
"""Fields that hold the prompt of a row without a conversation."""
_NAME_LIMIT = 120


class _PromptMessage(msgspec.Struct):
    role: str = ""
    content: msgspec.Raw = ABSENT


class _PromptText(NamedTuple):
    role: str
    said: str


_MESSAGE = msgspec.json.Decoder(_PromptMessage)
_MESSAGES = msgspec.json.Decoder(list[_PromptMessage])
_CONTENT = msgspec.json.Decoder(Content)


def task_facts(fields: Fields) -> TaskFacts:
    """The facts of a task, each empty where the fields do not have it.

    The fields are those of its input row, or of the row of one of its rollouts.
    """
    task = fields_of(fields.get(TASK)) or {}
    asked = _prompt(fields) or _prompt(task)
    users = [each.said for each in asked if each.role == "user" and each.said]
    title = users[-1] if users else next((each.said for each in asked if each.said), "")
    return TaskFacts(
        key=_key(_identifier(fields) or _identifier(task), asked),
        title=one_line(title, TITLE_LIMIT),
        agent=_name((fields_of(fields.get(AGENT)) or {}).get("name")),
        domain=_name(fields.get(DOMAIN)) or _name(task.get(DOMAIN)),
        difficulty=either(_level(fields.get(DIFFICULTY)), _level(task.get(DIFFICULTY))),
    )


def _prompt(fields: Fields) -> list[_PromptText]:
    """The prompt of the agent, the messages before an answer, or the field with the question."""
    params = fields_of(fields.get(PARAMS)) or {}
    asked = []
    if instructions := text_of(params.get("instructions")):
        asked.append(_PromptText("system", instructions))
    asked += _messages(params.get("input"))
    messages = takewhile(lambda each: each.role != "assistant", _messages(fields.get(MESSAGES)))
    return asked or list(messages) or _question(fields)


def _messages(raw: msgspec.Raw | None) -> list[_PromptText]:
    if raw is None:
        return []
    if said := text_of(raw):
        return [_PromptText("user", said)]
    messages = read(raw, _MESSAGES)
    if messages is None:  # one message is malformed: read the others one by one
        items = items_of(raw) or []
        messages = [found for item in items if (found := read(item, _MESSAGE)) is not None]
    return [_PromptText(each.role, _said(each.content)) for each in messages]


def _question(fields: Fields) -> list[_PromptText]:
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


def _key(identifier: str, asked: list[_PromptText]) -> str:
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


CAUSE_LIMIT = 200
_SOMETHING = "…"
_READ = 4 * CAUSE_LIMIT

_PLACES = re.compile(
    r"""
      \b[a-z][a-z0-9+.-]*://[^\s"'<>`|,;]+              # an address with a scheme
    | (?<![\w.])(?:~|\.{1,2})?(?:/[\w.@%+~-]+)+/?       # a path
    | (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?        # an IPv4 address, with a port or without
    | \[[0-9a-f:]*::?[0-9a-f:]*\](?::\d+)?              # an IPv6 address in brackets
    | \b[a-z0-9][a-z0-9.-]*[a-z0-9]:\d{2,5}\b           # a host with a port
    """,
    re.IGNORECASE | re.VERBOSE,
)
_QUOTED = re.compile(r"""(?<!\w)(["'`])(?:(?!\1).)+\1(?!\w)""")
_IDENTIFIERS = re.compile(
    r"""
      (?<![0-9a-z])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-z])   # a UUID
    | (?<![0-9a-z])0x[0-9a-f]+(?![0-9a-z])
    | (?<![0-9a-z])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}(?![0-9a-z])
    """,
    re.IGNORECASE | re.VERBOSE,
)
_NUMBERS = re.compile(
    r"""
      (?P<code>
        \b(?:HTTP(?:/\d(?:\.\d)?)?|status(?:[ _]code)?|code|errno)[ :=(]{1,3}\d{1,5}(?![\d.]*\d)
      )
    | (?<![A-Za-z0-9])[-+]?\d+(?:[.,_]\d+)*(?:e[-+]?\d+)?
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LISTS = re.compile(r"(N|…)(?:(?:,| and|, and) \1)+")


@lru_cache(maxsize=4096)
def _common(message: str) -> str:
    common = _PLACES.sub(_SOMETHING, message)
    common = _QUOTED.sub(rf"\g<1>{_SOMETHING}\g<1>", common)
    common = _IDENTIFIERS.sub(_SOMETHING, common)
    common = _NUMBERS.sub(lambda found: found["code"] or "N", common)
    return printable_line(_LISTS.sub(rf"\g<1>, {_SOMETHING}", common), CAUSE_LIMIT)


def cause_of(message: str) -> str:
    """The message as one line of at most 200 characters, equal for failures of one cause."""
    return _common(printable_line(message, _READ))
