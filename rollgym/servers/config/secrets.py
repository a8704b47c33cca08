"""Credentials do not belong on a screen, into a log or into the identity of a run.

They are told by the name of the setting, as people name them, and by three shapes that carry them
under any name: `Bearer …`, the password in a URL, and the usual prefix of an API key.
"""

import re
from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
Settings: TypeAlias = dict[str, JsonValue]

HIDDEN = "***"
_SECRET_NAME = re.compile(
    r"(.*_)?(api_?keys?|keys|passwords?|passwd|secrets?|credentials?|authorization|cookies?)"
    r"|(.*_)?(secret|private|access|auth|subscription|signing)_key|(x_)?key"
    r"|token|(.*_)?(access|api|auth|bearer|session|refresh|hf|id)_tokens?"
)
_SECRET_SHAPE = re.compile(r"\bBearer\s+\S+|\bsk-[\w-]{8,}|(?<=://)[^/@\s]+:[^/@\s]+(?=@)")


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name holds a credential."""
    return _SECRET_NAME.fullmatch(name.lower().replace("-", "_")) is not None


def redacted(settings: Settings) -> Settings:
    """The same settings with every credential replaced by `***`; the original is not changed."""
    return {name: _redacted_value(name, value) for name, value in settings.items()}


def redacted_text(text: str) -> str:
    """The text with whatever looks like a credential replaced."""
    return _SECRET_SHAPE.sub(HIDDEN, text)


def _redacted_value(name: str, value: JsonValue) -> JsonValue:
    if is_secret_name(name) and value not in (None, ""):
        return HIDDEN
    match value:
        case str():
            return redacted_text(value)
        case list():
            return [_redacted_value("", part) for part in value]
        case dict():
            return redacted(value)
        case _:
            return value
