"""The conversations of an agent, as they follow from its calls of a model.

A call has the whole conversation so far. Where it begins with everything that an earlier call asked
and was answered, it continues that call, and only the items after it are kept. Any other call
begins a new conversation: that of a subagent, one after a compaction, another try.

*The same turn* may be written in two ways, because a client repeats an answer in its own form:
without reasoning or with reasoning as text, with texts joined or trimmed, with the arguments of a
call written anew. So a turn with calls of tools is recognised by their ids, and one without calls
by its text. What is kept is what the model wrote. Whether the tokens of a prompt continue those
before is another question, which `rollgym.records.tokens` answers by the tokens alone.

*The main conversation* is the one with the most turns, and the later of two such. After a
compaction, the agent goes on in another conversation, with the same instructions and tools but
another beginning: of such conversations, the one that ended last is the main one.
"""

from collections.abc import Container, Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from rollgym.records.decoding import JsonDecoder
from rollgym.servers.final_answer import split_thinking
from rollgym.servers.responses import JsonObject

_VALUE = JsonDecoder()
_START = b"start"
_DIGEST_SIZE = 16
_ENCODER = msgspec.json.Encoder(order="deterministic")


class AskedPlace(NamedTuple):
    """Where a call belongs: the turn that it continues, and how many of its items that one has."""

    after: int | None
    known: int
    digest: bytes


class Turn(msgspec.Struct, frozen=True):
    """A call that was answered: the items that it added, and the answer.

    `parameters` are those of the request without the conversation.
    """

    after: int | None
    asked: list[JsonObject]
    output: list[JsonObject]
    parameters: JsonObject
    response: JsonObject


class Conversation(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A conversation, for a row.

    - `turns`: its turns, numbered in the order of their answers.
    - `after`: the turn of another conversation that it continues.
    - `parameters`, `input`: the parameters and the items of its first request, after those of
      `after`.
    - `output`: the items that follow; not for the main conversation, whose items are those of the
      response.
    """

    turns: list[int]
    parameters: JsonObject
    input: list[JsonObject]
    after: int | None = None
    output: list[JsonObject] = []


class Conversations:
    """The turns of a rollout as they are made."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._ends: dict[bytes, int] = {}
        self._calls: dict[object, object] = {}
        self._reused: set[object] = set()
        """Ids that the endpoint gave to several calls, which therefore say nothing."""

    def place(self, instructions: object, items: list[JsonObject]) -> AskedPlace:
        """Where a request with these items belongs."""
        digest = _extended(_START, ["instructions", instructions or ""])
        after, known = None, 0
        for end, entry in _entries(items, self._reused):
            digest = _extended(digest, entry)
            if (turn := self._ends.get(digest)) is not None:
                after, known = turn, end
        return AskedPlace(after, known, digest)

    def add(
        self, place: AskedPlace, items: list[JsonObject], parameters: JsonObject, answer: JsonObject
    ) -> None:
        """Add an answered call. The items of the answer are kept as they are."""
        output = [item for item in answer["output"] if isinstance(item, dict)]
        self.turns.append(Turn(place.after, items[place.known :], output, parameters, answer))
        for item in output:
            if item.get("type") == "function_call":
                made = item.get("name"), item.get("arguments")
                if self._calls.setdefault(item.get("call_id"), made) != made:
                    self._reused.add(item.get("call_id"))
        # An assistant's items at the end of the request and those of the answer are one turn.
        begins = _turn_start(items)
        digest = place.digest
        if begins < len(items):
            digest = self.place(parameters.get("instructions"), items[:begins]).digest
        for _, entry in _entries([*items[begins:], *output], self._reused):
            digest = _extended(digest, entry)
        self._ends[digest] = len(self.turns) - 1

    def main(self) -> list[int]:
        """The turns of the main conversation, in order."""
        chains = [self._chain(last) for last in self._last_turns()]
        if not chains:
            return []
        longest = max(chains, key=lambda chain: (len(chain), chain[-1]))
        kind, begins = self._kind(longest), self.turns[longest[0]].asked
        later = (
            chain
            for chain in chains
            if self._kind(chain) == kind and self.turns[chain[0]].asked != begins
        )
        return max([longest, *later], key=lambda chain: chain[-1])

    def output(self, chain: list[int]) -> list[JsonObject]:
        """The items of a conversation after its first request."""
        items: list[JsonObject] = []
        for place, number in enumerate(chain):
            turn = self.turns[number]
            items += turn.asked if place else []
            items += turn.output
        return items

    def whole(self, turn: int) -> list[JsonObject]:
        """All items of a conversation up to the answer of a turn."""
        chain = self._chain(turn)
        return [*self.turns[chain[0]].asked, *self.output(chain)]

    def all(self) -> list[Conversation]:
        """Every conversation, the main one first, the others in the order of their first turns."""
        main = self.main()
        if not main:
            return []
        others, seen = [], set(main)
        for last in self._last_turns():
            chain = [number for number in self._chain(last) if number not in seen]
            if chain:
                seen.update(chain)
                others.append(self._conversation(chain, has_output=True))
        others.sort(key=lambda each: each.turns[0])
        return [self._conversation(main, has_output=False), *others]

    def _conversation(self, chain: list[int], *, has_output: bool) -> Conversation:
        first = self.turns[chain[0]]
        return Conversation(
            turns=chain,
            parameters=first.parameters,
            input=first.asked,
            after=first.after,
            output=self.output(chain) if has_output else [],
        )

    def _last_turns(self) -> list[int]:
        continued = {turn.after for turn in self.turns}
        return [number for number in range(len(self.turns)) if number not in continued]

    def _chain(self, last: int) -> list[int]:
        chain = [last]
        while (before := self.turns[chain[-1]].after) is not None:
            chain.append(before)
        return chain[::-1]

    def _kind(self, chain: list[int]) -> object:
        """What tells the agent of a conversation from a subagent: its instructions and tools."""
        first = self.turns[chain[0]]
        parameters, asked = first.parameters, first.asked
        said = [item for item in asked if item.get("role") in ("system", "developer")]
        tools = parameters.get("tools")
        names = [_tool_name(tool) for tool in tools] if isinstance(tools, list) else []
        return parameters.get("instructions"), said[:1], names


def _tool_name(tool: object) -> object:
    return (tool.get("name") or tool.get("type")) if isinstance(tool, dict) else tool


def _extended(digest: bytes, entry: list[Any]) -> bytes:
    return blake2b(digest + _ENCODER.encode(entry), digest_size=_DIGEST_SIZE).digest()


def _turn_start(items: list[JsonObject]) -> int:
    """Where the items of an assistant at the end of a request begin."""
    start = len(items)
    while start and is_of_assistant(items[start - 1]):
        start -= 1
    return start


def is_of_assistant(item: JsonObject) -> bool:
    """Whether an item belongs to a turn of the model."""
    return item.get("role") == "assistant" or item.get("type") in ("function_call", "reasoning")


def _entries(
    items: Iterable[JsonObject], reused: Container[object]
) -> Iterator[tuple[int, list[Any]]]:
    """What is compared of the items: an entry for each, but one for a whole turn of an assistant.

    With each entry comes the number of items up to its end. `reused` are ids of several calls.
    """
    texts: list[str] = []
    calls: list[Any] = []
    end, is_open = 0, False
    for item in items:
        if is_of_assistant(item):
            kind = item.get("type")
            if kind == "function_call":
                identity = item.get("call_id")
                is_known = identity and identity not in reused
                calls.append(identity if is_known else [item.get("name"), _arguments(item)])
            elif kind != "reasoning":
                texts.append(_text(item.get("content")))
            end, is_open = end + 1, True
            continue
        if is_open:
            yield end, _assistant_entry(texts, calls)
            texts, calls, is_open = [], [], False
        end += 1
        if item.get("type") == "function_call_output":
            yield end, ["output", item.get("call_id"), _plain(item.get("output"))]
        else:
            yield end, [item.get("role") or item.get("type"), _plain(item.get("content", item))]
    if is_open:
        yield end, _assistant_entry(texts, calls)


def _assistant_entry(texts: list[str], calls: list[Any]) -> list[Any]:
    return ["assistant", calls or split_thinking("".join(texts))[1].strip()]


def _arguments(call: JsonObject) -> object:
    """The arguments without the spaces between them; a text that is not JSON as it is."""
    text = call.get("arguments")
    if not isinstance(text, str):
        return text
    try:
        return _VALUE.decode(text or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join([str(part.get("text") or "") for part in parts if isinstance(part, dict)])


def _plain(content: object) -> object:
    """A text alone as a string, in whichever form it is written."""
    match content:
        case str():
            return content.strip()
        case [{"type": "input_text" | "output_text" | "text", "text": str(text)}]:
            return text.strip()
        case _:
            return content
