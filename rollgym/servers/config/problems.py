"""Problems of a configuration, and the locations of its settings, which the problems name.

A run is configured by several files, an `env.yaml` and a command line. A user should see all
mistakes at once, each with its location and how to correct it. So the checks add to one `Problems`,
and the first step that needs a correct configuration calls `raise_if_any`.

A setting is identified by its path of keys. The location of a mapping is where it was first
written, that of a value where it was last written, since that is the line to change.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from rollgym.store import RefusedError

NAMES_LISTED = 20
JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
Settings: TypeAlias = dict[str, JsonValue]
KeyPath: TypeAlias = tuple[str, ...]
COMMAND_LINE = "command line"
_SEPARATORS = re.compile(r"[.\[\]]+")


class Problem(msgspec.Struct, frozen=True):
    """One mistake: where it is, what is wrong, and how to correct it.

    `is_misuse` marks an argument that the command cannot read or does not know.
    """

    where: str
    what: str
    fix: str
    is_misuse: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.fix}"


class ConfigError(RefusedError):
    """The configuration cannot be used; nothing was started."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems]
        if len(lines) > 1:
            head = f"{len(lines)} problems, and nothing was started:"
            lines = [head, *(f"  {line}" for line in lines)]
        super().__init__("\n".join(lines))
        self.is_misuse = any(each.is_misuse for each in self.problems)


class Problems:
    """The problems found so far."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def add(self, where: object, what: str, fix: str, *, is_misuse: bool = False) -> None:
        problem = Problem(str(where), what, fix, is_misuse)
        if problem not in self._found:
            self._found.append(problem)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def __bool__(self) -> bool:
        return bool(self._found)

    def extend(self, others: Iterable[Problem]) -> None:
        """Add problems that were found elsewhere."""
        for problem in others:
            self.add(problem.where, problem.what, problem.fix, is_misuse=problem.is_misuse)

    def raise_if_any(self) -> None:
        """Raises ConfigError with all problems, where there are any."""
        if self._found:
            raise ConfigError(self._found)


def listed(names: Iterable[str]) -> str:
    """The names as text, cut to a readable number."""
    ordered = sorted(names)
    shown = ", ".join(ordered[:NAMES_LISTED]) or "none"
    hidden = len(ordered) - NAMES_LISTED
    return f"{shown} and {hidden} more" if hidden > 0 else shown


def key_path(dotted: str) -> KeyPath:
    """`a.b[0]` is ("a", "b", "0")."""
    return tuple(part for part in _SEPARATORS.split(dotted) if part)


class Location(msgspec.Struct, frozen=True):
    """A file and a line of it, or the command line."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Locations:
    """The location of every key of a configuration made of several files."""

    def __init__(self) -> None:
        self._places: dict[KeyPath, Location] = {}

    def add_mapping(self, path: KeyPath, location: Location) -> None:
        """Note a mapping that is written here, and perhaps was before."""
        self._places.setdefault(path, location)

    def add_value(self, path: KeyPath, location: Location) -> None:
        """Note a value that is written here."""
        for depth in range(1, len(path)):
            self.add_mapping(path[:depth], location)
        self._places[path] = location

    def inherit(self, original: KeyPath, path: KeyPath) -> None:
        """Note that the keys at `original` are also at `path`, except where others are written."""
        depth = len(original)
        for inner, location in list(self._places.items()):
            if inner[:depth] == original and len(inner) > depth:
                self._places.setdefault((*path, *inner[depth:]), location)

    def of(self, path: KeyPath) -> Location:
        """The location of a key, or of the nearest key around it that has one."""
        while path and path not in self._places:
            path = path[:-1]
        return self._places.get(path, Location(COMMAND_LINE))

    def under(self, path: KeyPath) -> dict[str, Location]:
        """The location of every key inside of one, by its dotted path from there."""
        depth = len(path)
        return {
            ".".join(inner[depth:]): location
            for inner, location in self._places.items()
            if inner[:depth] == path and len(inner) > depth
        }
