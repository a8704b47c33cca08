"""JSON as models write it: read exactly if it is correct, and otherwise with each mistake noted.

A value is read from a position in a text, and the reader returns where it ended. It tolerates only
mistakes that leave no doubt about the meaning: single quotes, Python's True, False and None, a
comma before a closing bracket, line breaks inside strings, `\\'`, and a closing brace that is
missing right before the tag that ends the block. Duplicate keys, overlong numbers and deep nesting
are rejected. Each character is read a bounded number of times, whatever the text contains.
"""

import json
import math
import re

import msgspec


class ReplyError(Exception):
    """A reply is not exactly one action. The message is shown to the model."""


class Tolerances:
    """The mistakes that were tolerated, each named once, in the order they were met."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def note(self, *names: str) -> None:
        self._names.update(dict.fromkeys(names))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._names)


DEEPEST = 64
LONGEST_NUMBER = 400

_SPACE = re.compile(r"[ \t\r\n]*+")
_STRINGS = {
    '"': re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL),
    "'": re.compile(r"'([^'\\]*+(?:\\.[^'\\]*+)*+)'", re.DOTALL),
}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_WORD = re.compile(r"[A-Za-z]++")
_ESCAPE = re.compile(r'\\.|"', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_WORDS = {"true": True, "false": False, "null": None}
_PYTHON_WORDS = {"True": True, "False": False, "None": None}


class UnreadableError(Exception):
    """There is no value at this position. `cut_off`: the text ends too early."""

    def __init__(self, message: str, *, cut_off: bool = False) -> None:
        super().__init__(message)
        self.cut_off = cut_off


class Value(msgspec.Struct, frozen=True):
    """A value, and the position right after it."""

    value: object
    end: int


def read_value(text: str, at: int, tolerances: Tolerances, closing_tag: str = "") -> Value:
    """The value at a position, after white space. Raises UnreadableError.

    `closing_tag`: braces that are missing right before it are tolerated.
    """
    reader = _JsonReader(text, at, tolerances, closing_tag)
    return Value(reader.value(), reader.at)


def read_whole(text: str, tolerances: Tolerances) -> object:
    """The value that the whole text is. Raises UnreadableError."""
    read = read_value(text, 0, tolerances)
    if text[read.end :].strip():
        raise UnreadableError("there is more after its end")
    return read.value


class _JsonReader:
    def __init__(self, text: str, at: int, tolerances: Tolerances, closing_tag: str) -> None:
        self.text = text
        self.at = at
        self.tolerances = tolerances
        self.closing_tag = closing_tag
        self.depth = 0

    def value(self) -> object:
        match self._peek():
            case "{" | "[" as bracket:
                self.depth += 1
                if self.depth > DEEPEST:
                    raise UnreadableError(f"it is nested more than {DEEPEST} levels deep")
                self.at += 1
                read: object = self._object() if bracket == "{" else self._array()
                self.depth -= 1
                return read
            case '"' | "'":
                return self._string()
            case first if first in "-0123456789":
                return self._number()
            case _:
                return self._word()

    def _object(self) -> dict[str, object]:
        read: dict[str, object] = {}
        while not self._closes("}", after_item=bool(read)):
            if self._peek() not in "\"'":
                raise self._error("a key in quotes")
            key = self._string()
            if key in read:
                raise UnreadableError(f'"{key[:80]}" is given twice')
            if self._peek() != ":":
                raise self._error("a colon")
            self.at += 1
            read[key] = self.value()
        return read

    def _array(self) -> list[object]:
        read: list[object] = []
        while not self._closes("]", after_item=bool(read)):
            read.append(self.value())
        return read

    def _closes(self, bracket: str, *, after_item: bool) -> bool:
        """Whether the bracket closes here; if not, step over the comma before the next item."""
        found = self._peek()
        if found == bracket:
            self.at += 1
            return True
        if not after_item:
            return False
        if found == ",":
            self.at += 1
            if self._peek() == bracket:
                self.tolerances.note("trailing_comma")
                self.at += 1
                return True
            return False
        tag = self.closing_tag
        if bracket == "}" and tag and self.text.startswith(tag, self.at):
            self.tolerances.note("missing_brace")
            return True
        raise self._error(f"a comma or {bracket}")

    def _string(self) -> str:
        quote = self.text[self.at]
        found = _STRINGS[quote].match(self.text, self.at)
        if found is None:
            raise UnreadableError("a text in quotes has no end", cut_off=True)
        self.at = found.end()
        body = found[1]
        if quote == "'":
            self.tolerances.note("single_quotes")
        if _CONTROL.search(body):
            self.tolerances.note("raw_line_breaks")
            body = _CONTROL.sub(lambda control: f"\\u{ord(control[0]):04x}", body)
        if "\\'" in body or quote == "'":
            body = self._plain_quotes(body, quote)
        try:
            text: str = json.loads(f'"{body}"')
            text.encode()
        except ValueError:
            raise UnreadableError(f"the text {found[0][:80]} has a wrong escape") from None
        return text

    def _plain_quotes(self, body: str, quote: str) -> str:
        def plain(found: re.Match[str]) -> str:
            if found[0] == '"':
                return r"\""
            if found[0] == r"\'":
                if quote == '"':
                    self.tolerances.note("escaped_apostrophe")
                return "'"
            return found[0]

        return _ESCAPE.sub(plain, body)

    def _number(self) -> int | float:
        found = _NUMBER.match(self.text, self.at)
        if found is None:
            raise self._error("a number")
        if found.end() - found.start() > LONGEST_NUMBER:
            raise UnreadableError(f"a number has more than {LONGEST_NUMBER} digits")
        self.at = found.end()
        if found[1] is None and found[2] is None:
            return int(found[0])
        number = float(found[0])
        if math.isinf(number):
            raise UnreadableError(f"the number {found[0][:80]} is too large")
        return number

    def _word(self) -> bool | None:
        found = _WORD.match(self.text, self.at)
        word = found[0] if found else ""
        if word in _PYTHON_WORDS:
            self.tolerances.note("python_literals")
        elif word not in _WORDS:
            raise self._error("a value")
        self.at += len(word)
        return (_WORDS | _PYTHON_WORDS)[word]

    def _peek(self) -> str:
        """The next character that is not white space."""
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at
        if self.at >= len(self.text):
            raise UnreadableError("it has no end", cut_off=True)
        return self.text[self.at]

    def _error(self, wanted: str) -> UnreadableError:
        rest = self.text[self.at : self.at + 20]
        return UnreadableError(f"{wanted} should stand where {rest!r} stands")
