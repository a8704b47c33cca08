"""Texts that look like what agents write and read, made once and used over and over.

An *exchange* is what a model says, the tool it calls and what comes back, already as JSON: as chat
and as items of the Responses API, since a row has the conversation in both forms. Joining such
pieces is all that is left to do for a row, which is why rows can be made faster than disks write.
"""

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

import msgspec

TOOLS = ("search_document", "read_passage", "run_python", "fetch_url", "calculator", "lookup_table")
_SYLLABLES = (
    *("bra", "ck", "wa", "ter", "lu", "mi", "nor", "sel", "dra", "vin", "os", "ta", "quo", "rem"),
    *("pi", "la", "the", "un", "gar", "esh", "ol", "mar", "fen", "ith", "co", "ne", "ru", "dal"),
)
_COMMON = (
    *("the", "of", "and", "to", "in", "a", "is", "that", "it", "was", "for", "on", "are", "with"),
    *("as", "be", "at", "one", "have", "this", "from", "by", "but", "some", "what", "there", "we"),
    *("can", "out", "other", "were", "all", "your", "when", "use", "word", "how", "said", "each"),
    *("river", "number", "answer", "letter", "market", "engine", "island", "result", "error"),
)
_CODE = (
    "```python\ndef total(values):\n    return sum(value for value in values if value > 0)\n```",
    '```json\n{"name": "Copper Heron", "rooms": [1, 2, 3], "open": true}\n```',
    "The sum is $\\sum_{i=1}^{n} i = \\frac{n(n+1)}{2}$, so the answer follows.",
    "| town | people |\n|---|---|\n| Brackwater | 1,204 |\n| Selmarsh | 873 |",
    "1. read the passage\n2. compare **both** numbers\n3. answer: naïve café, 東京, Ελλάδα",
)
_AROUND = 760
"""Bytes of an exchange that are no text of it, about."""


class Exchange(NamedTuple):
    """One call of a tool: `chat` is two turns, `items` three items of the Responses API."""

    tool: str
    chat: bytes
    items: bytes


class Writer:
    """Writes texts, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        rare = ["".join(self._random.choices(_SYLLABLES, k=3)) for _ in range(600)]
        self._words = [*_COMMON * 12, *rare]

    def sentence(self) -> str:
        words = self._random.choices(self._words, k=self._random.randint(6, 18))
        return f"{' '.join(words).capitalize()}."

    def text(self, size: int) -> str:
        """About so many characters, with paragraphs and some Markdown."""
        pieces: list[str] = []
        length = 0
        while length < size:
            odd = self._random.random() < 0.04
            piece = f"\n\n{self._random.choice(_CODE)}\n\n" if odd else f"{self.sentence()} "
            pieces.append(piece)
            length += len(piece)
        return "".join(pieces)[:size]

    def exchange(self, number: int, size: int) -> Exchange:
        """About `size` bytes in both forms together: the model says less than it gets to read."""
        size -= _AROUND
        says = self.text(max(40, size // 12))
        arguments = _json({"query": self.sentence(), "max_results": number % 9 + 1}).decode()
        return self.exchange_of(number, says, arguments, self.text(max(40, size // 2 - len(says))))

    def exchange_of(self, number: int, says: str, arguments: str, result: str) -> Exchange:
        tool, call = TOOLS[number % len(TOOLS)], f"call_{number:016x}"
        function = {"name": tool, "arguments": arguments}
        called = {"id": call, "type": "function", "function": function}
        content = [{"type": "output_text", "text": says, "annotations": []}]
        chat: list[object] = [
            {"role": "assistant", "content": says, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": call, "content": result},
        ]
        items: list[object] = [
            {
                "type": "message",
                "id": f"msg_{number:016x}",
                "role": "assistant",
                "content": content,
            },
            {"type": "function_call", "call_id": call, **function, "status": "completed"},
            {"type": "function_call_output", "call_id": call, "output": result},
        ]
        return Exchange(tool, joined(map(_json, chat)), joined(map(_json, items)))


def tool_schemas() -> bytes:
    """The tools as a request lists them."""
    query = {"description": "What to look for.", "maxLength": 200, "type": "string"}
    results = {"default": 3, "maximum": 10, "minimum": 1, "type": "integer"}
    parameters = {"type": "object", "properties": {"query": query, "max_results": results}}
    return _json(
        [
            {"type": "function", "name": name, "parameters": parameters, "strict": False}
            for name in TOOLS
        ]
    )


def joined(pieces: Iterable[bytes]) -> bytes:
    return b",".join(pieces)


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)
