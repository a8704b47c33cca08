"""Text of others that stays text: no tag and no control token of a model can be read of it.

A server may turn `<|im_end|>` anywhere in a message into the token that ends it, and a page may
write `</page>` or `<tool_call>`. So a `<` that could begin such a thing is never written as it is.
"""

import re

import msgspec

_TAG_LIKE = re.compile(r"<(?=\\*[/|｜A-Za-z])")  # noqa: RUF001 - one that tokenizers know
_INERT = re.compile(r"<\\(?=\\*[/|｜A-Za-z])")  # noqa: RUF001
_CONTROL_TOKEN = re.compile(r"<([|｜])")  # noqa: RUF001


def inert(text: str) -> str:
    """With a backslash after each `<` that could begin a tag; `revive` is the inverse."""
    return _TAG_LIKE.sub(r"<\\", text)


def revive(text: str) -> str:
    """What `inert` was given."""
    return _INERT.sub("<", text)


def quoted(value: object) -> str:
    """JSON on one line, with `\\u003c` for each `<` that could begin a tag."""
    return _TAG_LIKE.sub(r"\\u003c", msgspec.json.encode(value).decode())


def without_control_tokens(text: str) -> str:
    """A reply as a history shows it: its tags are its own, the tokens of the template are not."""
    return _CONTROL_TOKEN.sub(r"<\\\1", text)


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters, the last of them an ellipsis where there were more."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
