"""A tool call that a model wrote into its text.

Small models often write a call as JSON without the form that their server reads, and some servers
read no calls at all. Such a text is read as a call if it leaves no doubt: it ends with one JSON
object that has the name of a known tool and its arguments, in `<tool_call>` tags, in a code fence
or bare. Any other text stays a text.
"""

import json
import re
from collections.abc import Collection

import msgspec

CANDIDATES = 16
"""The most objects of a text that are tried."""
_START = re.compile(r'\{\s*+"(?:name|arguments|parameters|type|function)"\s*+:')
_BEFORE = re.compile(r"(?:<tool_call>|```(?:json)?)\s*+\Z")
_AFTER = re.compile(r"\s*+(?:```)?\s*+(?:</tool_call>)?\s*+")
_DECODER = json.JSONDecoder()


class TextCall(msgspec.Struct, frozen=True):
    """A call, and the text before it."""

    name: str
    arguments: str
    head: str


def find_text_call(text: str, tools: Collection[str]) -> TextCall | None:
    """The one call of a known tool that ends the text. It takes linear time."""
    after = tried = 0
    found: list[TextCall] = []
    for start in _START.finditer(text):
        if start.start() < after:
            continue
        tried += 1
        if tried > CANDIDATES or found:
            return None
        try:
            value, end = _DECODER.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            continue
        after = end
        call = _call(value, tools)
        rest = _AFTER.match(text, end)
        if call is not None:
            if rest is None or rest.end() < len(text):
                return None
            name, arguments = call
            found.append(TextCall(name, arguments, _without_opening(text[: start.start()])))
    return found[0] if found else None


def _call(value: object, tools: Collection[str]) -> tuple[str, str] | None:
    match value:
        case {"type": "function", "function": dict() as function, **others} if not others:
            return _call(function, tools)
        case {"name": str() as name, "arguments": dict() as arguments, **others}:
            pass
        case {"name": str() as name, "parameters": dict() as arguments, **others}:
            pass
        case _:
            return None
    return (name, json.dumps(arguments)) if name in tools and not others else None


def _without_opening(head: str) -> str:
    tail = head[-40:]
    opening = _BEFORE.search(tail)
    return head[: len(head) - len(tail) + opening.start()].rstrip() if opening else head.rstrip()
