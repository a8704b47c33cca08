"""What is wrong with a configuration: everything at once, each with its place and its remedy.

A run is described by several files, an `env.yaml` and a command line. Whoever mends one mistake and
starts again should not be shown the next one only then. So the checks add to one `Problems`, and
the first thing that has to go on without any of them calls `refuse`.
"""

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches

import msgspec

from rollgym.store import RefusedError

CLOSE_ENOUGH = 0.6
NAMES_LISTED = 20


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong: where it stands, what it is, how to mend it."""

    where: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.fix}"


class ConfigError(RefusedError):
    """The configuration cannot be used; nothing was started."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems]
        if len(lines) > 1:
            lines = [f"{len(lines)} problems, and nothing was started:", *_indented(lines)]
        super().__init__("\n".join(lines))


class Problems:
    """The problems found so far."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def add(self, where: object, what: str, fix: str) -> None:
        problem = Problem(str(where), what, fix)
        if problem not in self._found:
            self._found.append(problem)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def __bool__(self) -> bool:
        return bool(self._found)

    def take(self, others: Iterable[Problem]) -> None:
        """Add those that were found elsewhere."""
        for problem in others:
            self.add(problem.where, problem.what, problem.fix)

    def refuse(self) -> None:
        """Raises ConfigError where there is any."""
        if self._found:
            raise ConfigError(self._found)


def suggestion(name: str, names: Collection[str]) -> str:
    """` (did you mean 'x'?)` where one of the names is close, nothing otherwise."""
    close = get_close_matches(name, names, 1, CLOSE_ENOUGH)
    return f" (did you mean {close[0]!r}?)" if close else ""


def listed(names: Iterable[str]) -> str:
    """The names in a row, as many as one can read."""
    ordered = sorted(names)
    shown = ", ".join(ordered[:NAMES_LISTED]) or "none"
    hidden = len(ordered) - NAMES_LISTED
    return f"{shown} and {hidden} more" if hidden > 0 else shown


def _indented(lines: Iterable[str]) -> Iterable[str]:
    return (f"  {line}" for line in lines)
