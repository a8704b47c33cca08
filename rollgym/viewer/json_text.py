"""JSON for people."""

import msgspec

TOO_DEEP = "(nested too deeply to be shown)"


def json_text(value: object) -> str:
    """A decoded value as JSON, indented where that helps."""
    try:
        encoded = msgspec.json.encode(value)
        indented = isinstance(value, dict | list) and len(encoded) > 60
        return msgspec.json.format(encoded, indent=2 if indented else 0).decode()
    except RecursionError:
        return TOO_DEEP


def indented(raw: bytes) -> str:
    """A row as it is in its file, spread over lines."""
    try:
        return msgspec.json.format(raw.strip(), indent=2).decode("utf-8", "replace")
    except RecursionError:
        return TOO_DEEP
