"""The turns of a conversation, each decoded from one item when it is requested.

Items come from rollgym's collections and from other programs: chat messages, or items of the
Responses API. Anything else than a known text, picture or call is shown as its JSON. The texts of a
turn share a budget, so that a turn of any size is sent as one page of it, and each text says where
the whole text is.

Reasoning in front of a text (`<think>…</think>`) is separated from it; both pieces have the pointer
of the whole text. Texts of more than a megabyte are not searched for it.

*Finding.* A text is first searched for in the bytes of an item, in windows and without decoding: a
turn can only show it if its item holds the text's longest run of letters and digits. Items that do
are decoded in full, because the bytes also hold field names and pictures. Of items that are too
long for that, the bytes must hold the text as JSON writes it.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from rollgym.servers.final_answer import split_thinking
from rollgym.viewer.documents.images import image_at
from rollgym.viewer.documents.texts import (
    LONG,
    child,
    cut,
    indented,
    is_json,
    json_text,
    short,
    string_text,
)
from rollgym.viewer.values import Fields, fields_of, is_present, items_of, start_of, text_of
from rollgym.viewer.view import TEXT_LIMIT, CallView, PictureView, Text, TurnView

MOST_PARTS = 50
MOST_CALLS = 50
TURN_TEXT_LIMIT = 4 * TEXT_LIMIT
"""Characters of all texts of one turn together."""
LEAST_TEXT = 200
"""Characters of a text that are sent even if the budget is spent."""
_INDENTED_UP_TO = 10 * TEXT_LIMIT
_ROLE_LIMIT = 40
_ASSISTANT = "assistant"
_TOOL = "tool"
_ERROR = re.compile(r'\s{0,9}\{\s{0,9}"(?:error|detail)"\s{0,9}:')
"""How servers begin an error: ours, and those that FastAPI answers."""
_UNKNOWN = "unknown"
_NO_NAME = "(no name)"
_OF_MESSAGES = frozenset(("role", "content", "tool_calls"))


class TurnItem(NamedTuple):
    """The JSON item of a turn. `role` applies if the item does not have one."""

    path: str
    raw: msgspec.Raw
    role: str = _UNKNOWN


class TurnReader:
    """Reads turns, and keeps the budget of their texts. For one thread at a time.

    `tool_of` gives the tool of a call id. `has_folder` says that pictures may be files. With
    `whole` no text is cut.
    """

    def __init__(
        self, tool_of: Callable[[str], str], *, has_folder: bool, whole: bool = False
    ) -> None:
        self._tool_of = tool_of
        self._has_folder = has_folder
        self._whole = whole
        self._left = TURN_TEXT_LIMIT

    def turn(self, item: TurnItem, index: int) -> TurnView:
        """Read an item. It never raises for the content of the item."""
        self._left = TURN_TEXT_LIMIT
        entry, path = fields_of(item.raw), item.path
        if entry is None:
            return TurnView(index, item.role, path, tuple(self._content(item.raw, path)))
        kept = fields_of(entry.get("item"))
        if kept is None:
            return self._entry(item, entry, path, index)
        # A transcript keeps an unknown item whole; it may be a message itself.
        within = child(path, "item")
        if "role" in kept:
            return self._entry(item, kept, within, index)
        role, reasoning = self._role(entry, item), self._reasoning(entry, path)
        return TurnView(index, role, path, (self._json(entry["item"], within),), reasoning)

    def _entry(self, item: TurnItem, entry: Fields, path: str, index: int) -> TurnView:
        kind = text_of(entry.get("type"))
        if kind == "reasoning":
            thought = self._reasoning_item(entry, path)
            return TurnView(index, _ASSISTANT, item.path, reasoning=thought)
        if kind == "function_call":
            call = self._call(entry, path, short(text_of(entry.get("call_id"))))
            return TurnView(index, _ASSISTANT, item.path, calls=(call,))
        if kind == "function_call_output":
            parts = tuple(self._content(entry.get("output"), child(path, "output")))
            return self._result(item, index, short(text_of(entry.get("call_id"))), parts)
        if entry.keys().isdisjoint(_OF_MESSAGES):
            return TurnView(index, item.role, item.path, (self._json(item.raw, item.path),))
        return self._message(item, entry, path, index)

    def _message(self, item: TurnItem, entry: Fields, path: str, index: int) -> TurnView:
        role, reasoning = self._role(entry, item), self._reasoning(entry, path)
        content, at = entry.get("content"), child(path, "content")
        parts: list[Text | PictureView] = []
        if role == _ASSISTANT and reasoning is None:
            reasoning, parts, content, at = self._thinking(content, at)
        parts += self._content(content, at)
        if refusal := text_of(entry.get("refusal")):
            parts.append(self._text(f"(refused) {refusal}", child(path, "refusal")))
        if role == _TOOL:
            called = short(text_of(entry.get("tool_call_id")))
            named = short(text_of(entry.get("name")))
            return self._result(item, index, called, tuple(parts), named)
        calls, left_out = self._calls(entry, path)
        return TurnView(index, role, item.path, (*parts, *left_out), reasoning, calls)

    @staticmethod
    def _role(entry: Fields, item: TurnItem) -> str:
        return short(text_of(entry.get("role")), _ROLE_LIMIT) or item.role

    def _result(
        self,
        item: TurnItem,
        index: int,
        called: str,
        parts: tuple[Text | PictureView, ...],
        named: str = "",
    ) -> TurnView:
        tool = self._tool_of(called) or named
        said = parts[0].text if parts and isinstance(parts[0], Text) else ""
        return TurnView(
            index,
            _TOOL,
            item.path,
            parts,
            tool=tool,
            tool_call_id=called,
            is_error=_ERROR.match(said) is not None,
        )

    def _thinking(
        self, content: msgspec.Raw | None, at: str
    ) -> tuple[Text | None, list[Text | PictureView], msgspec.Raw | None, str]:
        """The reasoning in front of a content that is one text, and the rest of the content."""
        raw, path = content, at
        if len(parts := items_of(content) or []) == 1:
            raw, path = (fields_of(parts[0]) or {}).get("text"), f"{at}/0/text"
        text = text_of(raw) if raw is not None and len(raw) <= LONG else None
        thought, rest = split_thinking(text) if text else ("", "")
        if not thought:
            return None, [], content, at
        answer: list[Text | PictureView] = [self._text(rest, path)] if rest.strip() else []
        return self._text(thought, path), answer, None, at

    def _reasoning(self, entry: Fields, path: str) -> Text | None:
        """The reasoning of a message, under either of its two names."""
        for name in ("reasoning", "reasoning_content"):
            raw = entry.get(name)
            if raw is None or not is_present(raw):
                continue
            text = self._string(raw, child(path, name)) or self._json(raw, child(path, name))
            if text.text:
                return text
        return None

    def _reasoning_item(self, entry: Fields, path: str) -> Text:
        """The text of a reasoning item, or else its summary."""
        for name, separator in (("content", ""), ("summary", "\n")):
            texts = [
                (text, f"{child(path, name)}/{index}/text")
                for index, part in enumerate(items_of(entry.get(name)) or ())
                if (text := text_of((fields_of(part) or {}).get("text")))
            ]
            if texts:
                joined = separator.join(text for text, _ in texts)
                return self._text(joined, texts[0][1] if len(texts) == 1 else "")
        return self._text("(the server did not send the reasoning)", "")

    def _content(self, content: msgspec.Raw | None, path: str) -> Iterator[Text | PictureView]:
        """The parts of a content, which is a text, a list of parts, or any other JSON."""
        if content is None or not is_present(content):
            return
        parts = items_of(content)
        if parts is None:
            part = self._part(content, path)
            yield from [part] if not isinstance(part, Text) or part.text else []
            return
        for index, part_of in enumerate(parts[:MOST_PARTS]):
            yield self._part(part_of, child(path, index))
        if len(parts) > MOST_PARTS:
            yield self._left_out(len(parts) - MOST_PARTS, "parts")

    def _part(self, part: msgspec.Raw, path: str) -> Text | PictureView:
        fields = fields_of(part)
        if fields is None:
            return self._string(part, path) or self._json(part, path)
        for name in ("text", "refusal"):
            if (text := self._string(fields.get(name), child(path, name))) is not None:
                return text
        image, at = fields.get("image_url"), child(path, "image_url")
        if (inner := fields_of(image)) is not None:
            image, at = inner.get("url"), child(at, "url")
        if image is not None and start_of(image, 1) == b'"':
            return image_at(image, at, has_folder=self._has_folder)
        return self._json(part, path)

    def _calls(self, entry: Fields, path: str) -> tuple[tuple[CallView, ...], list[Text]]:
        at = child(path, "tool_calls")
        given = items_of(entry.get("tool_calls")) or []
        calls = []
        for index, raw in enumerate(given[:MOST_CALLS]):
            fields, where = fields_of(raw) or {}, child(at, index)
            id_ = short(text_of(fields.get("id")))
            if (function := fields_of(fields.get("function"))) is not None:
                fields, where = function, child(where, "function")
            calls.append(self._call(fields, where, id_))
        over = len(given) - MOST_CALLS
        return tuple(calls), [self._left_out(over, "calls")] if over > 0 else []

    def _call(self, fields: Fields, path: str, id_: str) -> CallView:
        name = short(text_of(fields.get("name"))) or _NO_NAME
        raw, at = fields.get("arguments"), child(path, "arguments")
        if raw is None or not is_present(raw):
            return CallView(name, Text("", 0), id_)
        text = text_of(raw)
        if text is None:
            return CallView(name, self._json(raw, at), id_)
        if not is_json(text):
            return CallView(name, self._text(text, at), id_, malformed=True)
        small = len(text) <= _INDENTED_UP_TO
        return CallView(name, self._text(indented(text.encode()) if small else text, at), id_)

    def _left_out(self, number: int, what: str) -> Text:
        return self._text(f"({number} more {what} are in the raw JSON of this turn)", "")

    def _text(self, text: str, path: str) -> Text:
        return self._spent(cut(text, self._limit, path))

    def _string(self, raw: msgspec.Raw | None, path: str) -> Text | None:
        text = string_text(raw, self._limit, path)
        return None if text is None else self._spent(text)

    def _json(self, raw: msgspec.Raw, path: str) -> Text:
        return self._spent(json_text(raw, self._limit, path))

    @property
    def _limit(self) -> int:
        if self._whole:
            return 1 << 40
        return max(min(self._left, TEXT_LIMIT), LEAST_TEXT)

    def _spent(self, text: Text) -> Text:
        self._left -= len(text.text)
        return text


LONGEST_READ = 4 << 20
_WINDOW = 1 << 20
_RUN = re.compile(r"[a-z0-9]+")


class TextMatcher:
    """A text to search for, ignoring case."""

    def __init__(self, text: str) -> None:
        self._text = text.lower()
        self._run = max(_RUN.findall(self._text), key=len, default="").encode()
        self._written = msgspec.json.encode(self._text)[1:-1]

    def is_in(self, raw: msgspec.Raw, turn: Callable[[], TurnView]) -> bool:
        """Whether the turn of this item shows the text; `turn` reads the turn in full."""
        if len(raw) > LONGEST_READ:
            return _holds(raw, self._written)
        return _holds(raw, self._run) and any(self._text in text.lower() for text in _texts(turn()))


def _holds(raw: msgspec.Raw, lowered: bytes) -> bool:
    view, overlap = memoryview(raw), len(lowered)
    return any(
        lowered in bytes(view[start : start + _WINDOW + overlap]).lower()
        for start in range(0, view.nbytes, _WINDOW)
    )


def _texts(turn: TurnView) -> Iterator[str]:
    yield from (part.text for part in turn.parts if isinstance(part, Text))
    yield turn.reasoning.text if turn.reasoning else ""
    for call in turn.calls:
        yield call.name
        yield call.arguments.text
