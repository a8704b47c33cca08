"""What the index keeps about the result of a rollout: its conversation, model, tokens and ending.

Rows of files and results of journals have the same fields. The conversation is the transcript under
`output`; without one, the items of a `response`; in rows of other programs, the assistant turns
among `messages`. Transcript entries (roles, contents, tool calls) and response items (messages,
function calls) are read alike. Contents are skipped, except for the last one.
"""

from collections import Counter
from typing import Any, TypeAlias

import msgspec

from rollgym.rollouts.rows import METADATA, OUTPUT, RESPONSE
from rollgym.viewer.documents.conversation import MESSAGES
from rollgym.viewer.summary import MOST_TOOLS
from rollgym.viewer.values import (
    ABSENT,
    Fields,
    begins,
    count_of,
    either,
    fields_of,
    items_of,
    number_of,
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
        metadata = fields_of(fields.get(METADATA)) or {}
        incomplete = fields_of(response.get("incomplete_details")) or {}
        conversation = _conversation(fields, response)
        tokens = zip(_tokens(metadata), _tokens(response), strict=True)
        into, out = (either(counted, told) for counted, told in tokens)
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
            ending=text_of(metadata.get("ending")) or text_of(incomplete.get("reason")) or "",
        )


def _conversation(fields: Fields, response: Fields) -> ConversationSummary:
    found = summarise_conversation(fields.get(OUTPUT))
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
