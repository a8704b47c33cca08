"""Where each setting was written, so that a message can point at it.

A setting is known by its path of keys. A mapping stands where it was first begun, a value where it
was last given, since that is what one has to change.
"""

import re
from typing import TypeAlias

import msgspec

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
Settings: TypeAlias = dict[str, JsonValue]
KeyPath: TypeAlias = tuple[str, ...]

COMMAND_LINE = "command line"
_SEPARATORS = re.compile(r"[.\[\]]+")


def key_path(dotted: str) -> KeyPath:
    """`a.b[0]` is ("a", "b", "0")."""
    return tuple(part for part in _SEPARATORS.split(dotted) if part)


class Source(msgspec.Struct, frozen=True):
    """A place: a file and a line of it, or the command line."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Sources:
    """The place of every key of a configuration made of several files."""

    def __init__(self) -> None:
        self._places: dict[KeyPath, Source] = {}

    def begin(self, path: KeyPath, source: Source) -> None:
        """A mapping is written at this place, and perhaps was at an earlier one."""
        self._places.setdefault(path, source)

    def give(self, path: KeyPath, source: Source) -> None:
        """A value is written at this place."""
        for depth in range(1, len(path)):
            self.begin(path[:depth], source)
        self._places[path] = source

    def of(self, path: KeyPath) -> Source:
        """The place of a key, or of the nearest key around it that has one."""
        while path and path not in self._places:
            path = path[:-1]
        return self._places.get(path, Source(COMMAND_LINE))

    def under(self, path: KeyPath) -> dict[str, Source]:
        """The place of every key inside of one, by its dotted path from there."""
        depth = len(path)
        return {
            ".".join(inner[depth:]): source
            for inner, source in self._places.items()
            if inner[:depth] == path and len(inner) > depth
        }
