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
from rollgym.viewer.values import ABSENT, Fields, fields_of, is_present, items_of, text_of

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
        params = fields_of(row.get(PARAMS)) or {}
        prompt = [
            *_sequence(f"/{PARAMS}/instructions", params.get("instructions"), "system"),
            *_sequence(f"/{PARAMS}/input", params.get("input"), "user"),
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
            replies[-1].calls.extend(
                (text_of(call.get("name")) or "", turn) for call in _calls(raw)
            )
        return replies

    def tool_of(self, call: str) -> str:
        """The name of the tool that the call with this id called; "" for an unknown id."""
        return self._tools.get(call, "")

    @cached_property
    def _tools(self) -> dict[str, str]:
        """Made in one pass over all items, which decodes only ids and names of calls."""
        names: dict[str, str] = {}
        for sequence in (*self.prompt, *self.turns):
            for raw in sequence.items:
                for call in _calls(raw):
                    name = short(text_of(call.get("name")))
                    for identity in (call.get("id"), call.get("call_id")):
                        if is_present(identity):
                            names[short(text_of(identity))] = name
        return names


def _is_of_model(raw: msgspec.Raw) -> bool:
    item = fields_of(raw) or {}
    is_result = text_of(item.get("type")) == "function_call_output"
    return not is_result and text_of(item.get("role")) in (None, "assistant")


def _calls(raw: msgspec.Raw) -> Iterator[Fields]:
    """The calls of an item: the item itself, or those of a chat message."""
    item = fields_of(raw) or {}
    if text_of(item.get("type")) == "function_call":
        yield item
    for each in items_of(item.get("tool_calls")) or ():
        if (call := fields_of(each)) is not None:
            function = fields_of(call.get("function"))
            yield call if function is None else {**call, "name": function.get("name", ABSENT)}


def _turns(row: Fields) -> tuple[str, list[ItemSequence]]:
    """The field that has the turns, and the turns themselves."""
    if items := items_of(row.get(OUTPUT)):
        return OUTPUT, [ItemSequence(f"/{OUTPUT}", items)]
    if items := items_of((fields_of(row.get(RESPONSE)) or {}).get(OUTPUT)):
        return RESPONSE, [ItemSequence(f"/{RESPONSE}/{OUTPUT}", items)]
    if items := items_of(row.get(MESSAGES)):
        return MESSAGES, [ItemSequence(f"/{MESSAGES}", items)]
    return OUTPUT, _sequence(f"/{OUTPUT}", row.get(OUTPUT), "assistant")


def _sequence(path: str, raw: msgspec.Raw | None, role: str) -> list[ItemSequence]:
    if raw is None or not is_present(raw):
        return []
    items = items_of(raw)
    if items is not None:
        return [ItemSequence(path, items, role)]
    return [ItemSequence(path, (raw,), role, alone=True)]
