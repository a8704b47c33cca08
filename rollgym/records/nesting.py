"""How deep JSON is nested, found without decoding it.

Decoders, encoders and comparisons call themselves for each level and stop with a RecursionError at
a depth that differs between them. So a text from outside is checked before it is decoded.
"""

import re

DEEPEST_ARGUMENTS = 100
"""The most levels that the arguments of a tool call may have."""
# A string without its end is skipped too, so no character is read twice.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)


def is_deeper_than(limit: int, text: str) -> bool:
    """Whether arrays and objects of a JSON text are nested more than `limit` levels deep."""
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        match token[0][0]:
            case "[" | "{":
                depth += 1
                if depth > limit:
                    return True
            case "]" | "}":
                depth -= 1
    return False
