"""Translating the parameters of a request from one API to the other.

Every parameter is one of four. It has a name and form of its own on the other side (a translator
in the table), it means nothing there, it asks for something that cannot be done there (a translator
that refuses: a request is never quietly weakened), or it is passed on as it is, which is how
sampling parameters and a server's own extensions travel. A null is as good as nothing.
"""

from collections.abc import Callable, Mapping, Set
from typing import Any, TypeAlias

from rollgym.servers.responses.shape import JsonObject, ShapeError

Translate: TypeAlias = Callable[[JsonObject, Any], None]

# How a Responses request asks for log probabilities.
LOGPROBS = "message.output_text.logprobs"


def translate_parameters(
    source: JsonObject,
    target: JsonObject,
    translators: Mapping[str, Translate],
    without_meaning: Set[str],
) -> None:
    """Write the parameters in `source` into `target`. Raises ShapeError."""
    for name, value in source.items():
        if value is None or name in without_meaning:
            continue
        translate = translators.get(name)
        if translate is None:
            target[name] = value
            continue
        try:
            translate(target, value)
        except ShapeError as error:
            raise error.within(name) from None


def refuse(advice: str) -> Translate:
    """A translator for a parameter that may be there, but not be set."""

    def check(_: JsonObject, value: Any) -> None:
        if value:
            raise ShapeError("", advice)

    return check


def one_answer(_: JsonObject, value: Any) -> None:
    """The translator of `n`."""
    if value != 1:
        raise ShapeError("", "a response holds one answer; ask several times instead")
