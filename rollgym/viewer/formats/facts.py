"""What the index keeps about the task of a row, its result, and the cause of a failure.

*Tasks.* Rows of rollouts, inputs of runs and web tasks name the same things in different places.
The key of a task is made from its `task_id`; without one, from its prompt (roles and texts), so
that it is the same in files that write the same prompt in different ways.

*Results.* Rows of files and results of journals have the same fields. The conversation is the
transcript under `output`; without one, the items of a `response`; in rows of other programs, the
assistant turns among `messages`. Transcript entries (roles, contents, tool calls) and response
items (messages, function calls) are read alike. Contents are skipped, except for the last one.

*Causes.* A cause is a failure message without the parts that differ from one rollout to the next:
addresses, paths, quoted names, identifiers and numbers become placeholders, so that a thousand
failures of one cause are one group. Codes stay: HTTP 503 is another cause than HTTP 429.
"""

import re
from collections import Counter
from functools import lru_cache
from hashlib import blake2b
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias

import msgspec

from rollgym.monitor import printable_line
from rollgym.rollouts.rows import AGENT, OUTPUT, PARAMS, RESPONSE, own_metadata, own_output
from rollgym.viewer.documents.conversation import MESSAGES
from rollgym.viewer.summary import MOST_TOOLS, TITLE_LIMIT, TaskFacts
from rollgym.viewer.values import (
    ABSENT,
    Fields,
    begins,
    count_of,
    either,
    fields_of,
    items_of,
    number_of,
    one_line,
    read,
    text_of,
)

_UNNAMED = "(no name)"
_NAME_LIMIT = 120


class _ImageLink(msgspec.Struct):
    url: Any = None


class _ContentPart(msgspec.Struct):
    text: str | None = None
    image_url: _ImageLink | str | None = None
    refusal: str | None = None


Content: TypeAlias = str | list[_ContentPart | str] | None


class _ToolFunction(msgspec.Struct):
    name: str | None = None


class _ToolCall(msgspec.Struct):
    name: str | None = None
    function: _ToolFunction | None = None


class ConversationItem(msgspec.Struct):
    """An entry of a transcript or an item of a response."""

    role: str | None = None
    type: str | None = None
    name: str | None = None
    content: msgspec.Raw = ABSENT
    tool_calls: list[_ToolCall] | None = None


_ITEM = msgspec.json.Decoder(ConversationItem)
_ITEMS = msgspec.json.Decoder(list[ConversationItem])
_CONTENT = msgspec.json.Decoder(Content)
_NO_ITEM = ConversationItem()


class ConversationSummary(msgspec.Struct, frozen=True):
    """`turns` counts those of the model: a text, or the calls that it made at once."""

    turns: int | None = None
    calls: int | None = None
    tools: dict[str, int] = {}
    final_text: str = ""


NO_CONVERSATION = ConversationSummary()


def summarise_conversation(raw: msgspec.Raw | None) -> ConversationSummary | None:
    """Summarise a list of entries or a single text; None where there is no conversation."""
    if begins(raw, b'"'):
        said = text_of(raw)
        return None if said is None else ConversationSummary(1, 0, {}, said)
    if not begins(raw, b"["):
        return None
    items = read(raw, _ITEMS)
    if items is None:  # one item is malformed: read the others one by one
        raws = items_of(raw)
        if raws is None:
            return None
        items = [read(each, _ITEM) or _NO_ITEM for each in raws]
    called: list[str] = []
    turns, calling = 0, False
    for item in items:
        if item.role == "assistant":
            turns, calling = turns + 1, False
            if item.tool_calls:
                called += (_tool_label((call.function or call).name) for call in item.tool_calls)
        elif item.type == "function_call":
            turns, calling = turns + (not calling), True
            called.append(_tool_label(item.name))
        else:
            calling = False
    tools = dict(Counter(called).most_common(MOST_TOOLS))
    return ConversationSummary(turns, len(called), tools, _final_text(items))


def content_text(content: Content) -> str:
    """The texts of a content, and the addresses of its pictures."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(filter(None, map(_part_text, content)))


def _part_text(part: _ContentPart | str) -> str:
    if isinstance(part, str):
        return part
    link = part.image_url.url if isinstance(part.image_url, _ImageLink) else part.image_url
    return part.text or part.refusal or (link if isinstance(link, str) else "")


def _tool_label(name: str | None) -> str:
    return name[:_NAME_LIMIT] if name else _UNNAMED


def _final_text(items: list[ConversationItem]) -> str:
    for item in reversed(items):
        if item.role == "assistant" and item.content:
            said = content_text(read(item.content, _CONTENT))
            if said and not said.isspace():
                return said
    return ""


class RolloutResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a rollout. Each value is None or empty where the result does not say it.

    Counts in the metadata come before those of the response and of the conversation.
    """

    conversation: ConversationSummary
    metadata: Fields
    attempt: int | None
    steps: int | None
    tool_calls: int | None
    input_tokens: int | None
    output_tokens: int | None
    seconds: float | None
    started: float | None
    model: str
    ending: str

    @classmethod
    def of(cls, fields: Fields) -> "RolloutResult":
        response = fields_of(fields.get(RESPONSE)) or {}
        metadata = own_metadata(fields)
        conversation = _conversation(fields, response)
        tokens = zip(_tokens(metadata), _tokens(response), strict=True)
        into, out = (either(counted, reported) for counted, reported in tokens)
        steps = either(count_of(metadata.get("reasoning_steps")), count_of(metadata.get("steps")))
        return cls(
            conversation=conversation,
            metadata=metadata,
            attempt=either(count_of(metadata.get("attempts")), count_of(metadata.get("attempt"))),
            steps=either(steps, conversation.turns),
            tool_calls=either(count_of(metadata.get("tool_calls_made")), conversation.calls),
            input_tokens=into,
            output_tokens=out,
            seconds=number_of(metadata.get("seconds")),
            started=number_of(metadata.get("started")),
            model=text_of(response.get("model")) or text_of(metadata.get("model")) or "",
            ending=_ending(metadata, response),
        )


def _ending(metadata: Fields, response: Fields) -> str:
    """Why the rollout ended: the agent's word counts before the model's."""
    said = fields_of(response.get("metadata")) or {}  # a journal has only the response
    stopped_by = text_of(metadata.get("stopped_by")) or text_of(said.get("stopped_by"))
    incomplete = fields_of(response.get("incomplete_details")) or {}
    reported = text_of(metadata.get("ending")) or stopped_by or text_of(incomplete.get("reason"))
    return reported or ""


def _conversation(fields: Fields, response: Fields) -> ConversationSummary:
    found = summarise_conversation(own_output(fields))
    found = found or summarise_conversation(response.get(OUTPUT))
    if found is None and begins(fields.get(RESPONSE), b'"'):
        found = summarise_conversation(fields.get(RESPONSE))
    if found is None:
        # Without an answer of the assistant, `messages` are a prompt.
        messages = summarise_conversation(fields.get(MESSAGES))
        found = messages if messages is not None and messages.turns else None
    return found or NO_CONVERSATION


def _tokens(holder: Fields) -> tuple[int | None, int | None]:
    """Input and output tokens of a `usage`, by the names of either API."""
    usage = fields_of(holder.get("usage")) or {}
    into = count_of(usage.get("input_tokens")), count_of(usage.get("prompt_tokens"))
    out = count_of(usage.get("output_tokens")), count_of(usage.get("completion_tokens"))
    return either(*into), either(*out)


TASK_ID = "task_id"
TASK = "task"
DOMAIN = "domain"
DIFFICULTY = "difficulty"
QUESTIONS = ("task_name", "question", "prompt", "problem")
"""Fields that hold the prompt of a row without a conversation."""


class _PromptMessage(msgspec.Struct):
    role: str = ""
    content: msgspec.Raw = ABSENT


class _PromptText(NamedTuple):
    role: str
    said: str


_MESSAGE = msgspec.json.Decoder(_PromptMessage)
_MESSAGES = msgspec.json.Decoder(list[_PromptMessage])


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
