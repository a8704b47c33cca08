"""What the index keeps about the result of a rollout: its conversation, model, tokens and ending.

Rows of files and results of journals have the same fields. The conversation is the transcript under
`output`; without one, the items of a `response`; in rows of other programs, the assistant turns
among `messages`. Transcript entries (roles, contents, tool calls) and response items (messages,
function calls) are read alike. Contents are skipped, except for the last one.
"""

from collections import Counter
from typing import Any, NamedTuple, TypeAlias

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

    turns: int
    calls: int
    tools: dict[str, int]
    last_words: str


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
    return summarise_items(items)


def summarise_items(items: list[ConversationItem]) -> ConversationSummary:
    """Summarise the items of a conversation."""
    called: list[str] = []
    turns, calling = 0, False
    for item in items:
        if item.role == "assistant":
            turns, calling = turns + 1, False
            if item.tool_calls:
                called += map(_called_tool, item.tool_calls)
        elif item.type == "function_call":
            turns, calling = turns + (not calling), True
            called.append(_tool_label(item.name))
        else:
            calling = False
    tools = dict(Counter(called).most_common(MOST_TOOLS))
    return ConversationSummary(turns, len(called), tools, _last_words(items))


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


def _called_tool(call: _ToolCall) -> str:
    return _tool_label(call.function.name if call.function else call.name)


def _tool_label(name: str | None) -> str:
    return name[:_NAME_LIMIT] if name else _UNNAMED


def _last_words(items: list[ConversationItem]) -> str:
    for item in reversed(items):
        if item.role == "assistant" and item.content:
            said = content_text(read(item.content, _CONTENT))
            if said and not said.isspace():
                return said
    return ""


class ResponseSummary(msgspec.Struct, frozen=True):
    """What a response says beside its items, of the Responses API or a chat completion."""

    model: str = ""
    ending: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None


def summarise_response(fields: Fields) -> ResponseSummary:
    """Each field is empty where the response does not have it."""
    usage = tokens_of(fields_of(fields.get("usage")) or {})
    incomplete = fields_of(fields.get("incomplete_details")) or {}
    return ResponseSummary(
        model=text_of(fields.get("model")) or "",
        ending=text_of(incomplete.get("reason")) or "",
        input_tokens=usage[0],
        output_tokens=usage[1],
    )


def tokens_of(usage: Fields) -> tuple[int | None, int | None]:
    """Input and output tokens, by the names of either API; None where they are missing."""
    into = count_of(usage.get("input_tokens")), count_of(usage.get("prompt_tokens"))
    out = count_of(usage.get("output_tokens")), count_of(usage.get("completion_tokens"))
    return either(*into), either(*out)


class ResultNumbers(NamedTuple):
    """The numbers in the metadata of a row."""

    attempt: int | None
    seconds: float | None
    started: float | None
    input_tokens: int | None
    output_tokens: int | None


class RolloutResult(msgspec.Struct, frozen=True):
    """The result of a rollout. `conversation` is None where there is none at all."""

    conversation: ConversationSummary | None
    response: ResponseSummary
    metadata: Fields

    @classmethod
    def of(cls, fields: Fields) -> "RolloutResult":
        response = fields_of(fields.get(RESPONSE)) or {}
        conversation = summarise_conversation(fields.get(OUTPUT))
        if conversation is None:
            conversation = summarise_conversation(response.get(OUTPUT))
        if conversation is None and begins(fields.get(RESPONSE), b'"'):
            conversation = summarise_conversation(fields.get(RESPONSE))
        if conversation is None:
            conversation = _answered(fields)
        metadata = fields_of(fields.get(METADATA)) or {}
        return cls(conversation, summarise_response(response), metadata)

    @property
    def numbers(self) -> ResultNumbers:
        metadata = self.metadata
        into, out = tokens_of(fields_of(metadata.get("usage")) or {})
        return ResultNumbers(
            attempt=either(count_of(metadata.get("attempts")), count_of(metadata.get("attempt"))),
            seconds=number_of(metadata.get("seconds")),
            started=number_of(metadata.get("started")),
            input_tokens=either(into, self.response.input_tokens),
            output_tokens=either(out, self.response.output_tokens),
        )

    @property
    def model(self) -> str:
        return self.response.model or text_of(self.metadata.get("model")) or ""

    @property
    def ending(self) -> str:
        return text_of(self.metadata.get("ending")) or self.response.ending

    @property
    def steps(self) -> int | None:
        """The number in the metadata, or else the model's turns in the conversation."""
        metadata = self.metadata
        told = either(count_of(metadata.get("reasoning_steps")), count_of(metadata.get("steps")))
        return told if told is not None or self.conversation is None else self.conversation.turns

    @property
    def tool_calls(self) -> int | None:
        told = count_of(self.metadata.get("tool_calls_made"))
        return told if told is not None or self.conversation is None else self.conversation.calls

    @property
    def tools(self) -> dict[str, int]:
        return self.conversation.tools if self.conversation else {}

    @property
    def last_words(self) -> str:
        return self.conversation.last_words if self.conversation else ""


def _answered(fields: Fields) -> ConversationSummary | None:
    """The conversation in `messages`, if the assistant answers there; else it is a prompt."""
    conversation = summarise_conversation(fields.get(MESSAGES))
    return conversation if conversation is not None and conversation.turns else None
