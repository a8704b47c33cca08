"""The conversation of a row: where its items are, and which tool each call belongs to.

The prompt is in `responses_create_params`. The turns are the row's `output`, else the items of its
`response`, else its `messages`. A prompt of at most `PROMPT_TURNS` turns is shown by itself; a
longer one is shown in front of the other turns, and read in portions like them.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from rollgym.rollouts.rows import OUTPUT, PARAMS, RESPONSE
from rollgym.viewer.documents.texts import short
from rollgym.viewer.documents.turns import TurnItem
from rollgym.viewer.values import ABSENT, Fields, is_present, items_of, read, text_of


class ResponseFields(msgspec.Struct, frozen=True):
    """The undecoded fields of a row's `response` that are used."""

    id: msgspec.Raw = ABSENT
    status: msgspec.Raw = ABSENT
    model: msgspec.Raw = ABSENT
    incomplete_details: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT
    output: msgspec.Raw = ABSENT


_RESPONSE = msgspec.json.Decoder(ResponseFields)


def response_fields(row: Fields) -> ResponseFields:
    """The fields of a row's `response`; all absent where the row has none."""
    return read(row.get(RESPONSE), _RESPONSE) or ResponseFields()


PROMPT_TURNS = 20
MESSAGES = "messages"


class ItemSequence(msgspec.Struct, frozen=True):
    """The items of one array, or one value that is a single item (`alone`)."""

    path: str
    items: Sequence[msgspec.Raw]
    role: str = "unknown"
    alone: bool = False

    def item(self, index: int) -> TurnItem:
        return TurnItem(
            self.path if self.alone else f"{self.path}/{index}", self.items[index], self.role
        )


class ModelReply(NamedTuple):
    """One reply of the model: its first turn, and its calls, each with its turn."""

    turn: int
    calls: list[tuple[str, int]]


class RowConversation:
    """The undecoded items of a row."""

    def __init__(self, row: Fields) -> None:
        params = read(row.get(PARAMS), _PROMPT) or _PromptFields()
        prompt = [
            *_sequence(f"/{PARAMS}/instructions", params.instructions, "system"),
            *_sequence(f"/{PARAMS}/input", params.input, "user"),
        ]
        self.field, turns = _turns(row)
        long = sum(len(sequence.items) for sequence in prompt) > PROMPT_TURNS
        self.prompt: list[ItemSequence] = [] if long else prompt
        self.turns: list[ItemSequence] = [*prompt, *turns] if long else turns
        self._without_prompt = turns

    def __len__(self) -> int:
        return sum(len(sequence.items) for sequence in self.turns)

    def prompt_items(self) -> Iterator[TurnItem]:
        for sequence in self.prompt:
            yield from map(sequence.item, range(len(sequence.items)))

    def items(self, start: int, count: int) -> Iterator[tuple[int, TurnItem]]:
        """At most `count` items from `start` on, each with its index."""
        end, first = start + count, 0
        for sequence in self.turns:
            last = first + len(sequence.items)
            for index in range(max(start, first), min(end, last)):
                yield index, sequence.item(index - first)
            first = last

    def replies(self) -> list[ModelReply]:
        """The model's replies; consecutive turns of the model are one reply.

        Empty for `messages` of another program, which may start with turns that were given.
        """
        if self.field == MESSAGES:
            return []
        replies: list[ModelReply] = []
        others = True
        first = len(self) - sum(len(sequence.items) for sequence in self._without_prompt)
        for turn, (_, raw, _) in self.items(first, len(self)):
            if not _is_of_model(raw):
                others = True
                continue
            if others:
                replies.append(ModelReply(turn, []))
                others = False
            replies[-1].calls.extend((text_of(call.name) or "", turn) for call in _calls(raw))
        return replies

    def tool_of(self, call: str) -> str:
        """The name of the tool that the call with this id called; "" for an unknown id."""
        return self._tools.get(call, "")

    @cached_property
    def _tools(self) -> dict[str, str]:
        """Made in one pass over all items, which decodes only ids and names."""
        names: dict[str, str] = {}
        for sequence in (*self.prompt, *self.turns):
            for raw in sequence.items:
                for call in _calls(raw):
                    name = short(text_of(call.name))
                    for identity in (call.id, call.call_id):
                        if is_present(identity):
                            names[short(text_of(identity))] = name
        return names


class _PromptFields(msgspec.Struct, frozen=True):
    instructions: msgspec.Raw = ABSENT
    input: msgspec.Raw = ABSENT


class _ItemFields(msgspec.Struct, frozen=True):
    """The fields of an item, or of a call in a chat message, that are used."""

    id: msgspec.Raw = ABSENT
    call_id: msgspec.Raw = ABSENT
    name: msgspec.Raw = ABSENT
    function: msgspec.Raw = ABSENT
    type: msgspec.Raw = ABSENT
    role: msgspec.Raw = ABSENT
    tool_calls: msgspec.Raw = ABSENT


_PROMPT = msgspec.json.Decoder(_PromptFields)
_ITEM = msgspec.json.Decoder(_ItemFields)


def _is_of_model(raw: msgspec.Raw) -> bool:
    item = read(raw, _ITEM) or _ItemFields()
    return text_of(item.type) != "function_call_output" and text_of(item.role) in (
        None,
        "assistant",
    )


def _calls(raw: msgspec.Raw) -> Iterator[_ItemFields]:
    item = read(raw, _ITEM)
    if item is None:
        return
    if text_of(item.type) == "function_call":
        yield item
    if not is_present(item.tool_calls):
        return
    for each in items_of(item.tool_calls) or ():
        if (call := read(each, _ITEM)) is not None:
            function = read(call.function, _ITEM)
            yield call if function is None else msgspec.structs.replace(call, name=function.name)


def _turns(row: Fields) -> tuple[str, list[ItemSequence]]:
    """The field that has the turns, and the turns themselves."""
    if items := items_of(row.get(OUTPUT)):
        return OUTPUT, [ItemSequence(f"/{OUTPUT}", items)]
    if items := items_of(response_fields(row).output):
        return RESPONSE, [ItemSequence(f"/{RESPONSE}/{OUTPUT}", items)]
    if items := items_of(row.get(MESSAGES)):
        return MESSAGES, [ItemSequence(f"/{MESSAGES}", items)]
    return OUTPUT, _sequence(f"/{OUTPUT}", row.get(OUTPUT, ABSENT), "assistant")


def _sequence(path: str, raw: msgspec.Raw, role: str) -> list[ItemSequence]:
    if not is_present(raw):
        return []
    items = items_of(raw)
    if items is not None:
        return [ItemSequence(path, items, role)]
    return [ItemSequence(path, (raw,), role, alone=True)]
