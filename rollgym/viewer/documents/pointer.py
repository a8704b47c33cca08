"""JSON pointers (RFC 6901): where in a record a value is."""

import msgspec

from rollgym.viewer.values import fields_of, items_of

LONGEST_INDEX = 12


def child(path: str, name: str | int) -> str:
    """The pointer to a member of what `path` points to."""
    if isinstance(name, int):
        return f"{path}/{name}"
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"


def names_in(pointer: str) -> list[str]:
    """The names and indexes on the way, from the outside in. Raises KeyError for no pointer."""
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise KeyError(pointer)
    return [name.replace("~1", "/").replace("~0", "~") for name in pointer[1:].split("/")]


def value_at(raw: msgspec.Raw, names: list[str]) -> msgspec.Raw:
    """What is found by these names. Raises KeyError with the first that leads nowhere."""
    for name in names:
        raw = _member(raw, name)
    return raw


def _member(raw: msgspec.Raw, name: str) -> msgspec.Raw:
    fields = fields_of(raw)
    if fields is not None:
        return fields[name]
    items = items_of(raw)
    if items is None or not _is_index(name) or int(name) >= len(items):
        raise KeyError(name)
    return items[int(name)]


def _is_index(name: str) -> bool:
    """As the standard has them: digits, and no zero in front."""
    digits = name.isascii() and name.isdecimal() and len(name) <= LONGEST_INDEX
    return digits and (name == "0" or not name.startswith("0"))
