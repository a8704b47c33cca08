"""The conversation of a row: where its items are, and which tool each call belongs to.

The prompt is in `responses_create_params`. The turns are the row's `output`, else the items of its
`response`, else its `messages`. A prompt of at most `PROMPT_TURNS` turns is shown by itself; a
longer one is shown in front of the other turns, and read in portions like them.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from rollgym.rollouts.fields import OUTPUT, PARAMS, RESPONSE
from rollgym.viewer.documents.texts import short
from rollgym.viewer.documents.turns import TurnItem
from rollgym.viewer.values import ABSENT, Fields, is_present, items_of, read, text_of


class ResponseFields(msgspec.Struct, frozen=True):
    """Each field undecoded; what is not named here is not looked at."""

    id: msgspec.Raw = ABSENT
    status: msgspec.Raw = ABSENT
    model: msgspec.Raw = ABSENT
    incomplete_details: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT
    output: msgspec.Raw = ABSENT


_RESPONSE = msgspec.json.Decoder(ResponseFields)


def response_fields(row: Fields) -> ResponseFields:
    """Empty where the row has no response."""
    return read(row.get(RESPONSE), _RESPONSE) or ResponseFields()


PROMPT_TURNS = 20
MESSAGES = "messages"


class ItemSequence(msgspec.Struct, frozen=True):
    """Items that follow each other in one array, or one value that is an item by itself."""

    path: str
    items: Sequence[msgspec.Raw]
    role: str = "unknown"
    alone: bool = False

    def item(self, index: int) -> TurnItem:
        return TurnItem(
            self.path if self.alone else f"{self.path}/{index}", self.items[index], self.role
        )


class ModelReply(NamedTuple):
    """What the model said at one time: its first turn, and its calls, each with its own turn."""

    turn: int
    calls: list[tuple[str, int]]


class RowConversation:
    """The items of a row, undecoded."""

    def __init__(self, row: Fields) -> None:
        asked = read(row.get(PARAMS), _PROMPT) or _PromptFields()
        prompt = [
            *_sequence(f"/{PARAMS}/instructions", asked.instructions, "system"),
            *_sequence(f"/{PARAMS}/input", asked.input, "user"),
        ]
        self.field, said = _said(row)
        long = sum(len(stretch.items) for stretch in prompt) > PROMPT_TURNS
        self.prompt: list[ItemSequence] = [] if long else prompt
        self.turns: list[ItemSequence] = [*prompt, *said] if long else said
        self._said = said

    def __len__(self) -> int:
        return sum(len(stretch.items) for stretch in self.turns)

    def prompt_items(self) -> Iterator[TurnItem]:
        for stretch in self.prompt:
            yield from map(stretch.item, range(len(stretch.items)))

    def items(self, start: int, count: int) -> Iterator[tuple[int, TurnItem]]:
        """Those from `start` on, at most `count`, each with its index."""
        end, first = start + count, 0
        for stretch in self.turns:
            last = first + len(stretch.items)
            for index in range(max(start, first), min(end, last)):
                yield index, stretch.item(index - first)
            first = last

    def replies(self) -> list[ModelReply]:
        """The turns of the model that follow each other are one reply.

        Messages of another program may begin with replies that were not asked for: they give none.
        """
        if self.field == MESSAGES:
            return []
        replies: list[ModelReply] = []
        others = True
        first = len(self) - sum(len(stretch.items) for stretch in self._said)
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
        """The name of the tool that a call with this id is of; "" where there is no such call."""
        return self._tools.get(call, "")

    @cached_property
    def _tools(self) -> dict[str, str]:
        """Made in one pass over all items, in which nothing but ids and names is decoded."""
        names: dict[str, str] = {}
        for stretch in (*self.prompt, *self.turns):
            for raw in stretch.items:
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
    """A call of a chat message, or the item that is one in Responses."""

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


def _said(row: Fields) -> tuple[str, list[ItemSequence]]:
    """The field that the turns are in, and where there."""
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
