"""Reading the parameters of a query: what they may be, and what to say of those that are not.

A value that is empty asks for nothing, as a form sends it. Everything else that means nothing is
told, with what would: a filter that is silently left out shows the wrong rollouts.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from math import isfinite
from typing import TypeVar

from rollgym.servers.config import suggestion
from rollgym.viewer.errors import PageError
from rollgym.viewer.values import LARGEST

Query = Mapping[str, Sequence[str]]
"""Each parameter with its values, in the order of the URL."""

MOST_VALUES = 200
LONGEST_VALUE = 500
_SHOWN = 80
_T = TypeVar("_T")


class Parameters:
    """The values of a query, those that are not empty. Everything here raises PageError (400)."""

    def __init__(self, query: Query, names: Collection[str]) -> None:
        """`names` are all that may be in the query."""
        self._given: dict[str, tuple[str, ...]] = {}
        for name, values in query.items():
            if name not in names:
                raise _refused(
                    f"{name[:_SHOWN]!r} is no parameter{suggestion(name[:_SHOWN], names)}: "
                    f"there are {', '.join(sorted(names))}"
                )
            # The same value twice asks for nothing more.
            kept = tuple(dict.fromkeys(text for value in values if (text := value.strip())))
            if len(kept) > MOST_VALUES:
                raise _refused(f"{name} is given {len(kept)} times: give at most {MOST_VALUES}")
            for value in kept:
                if len(value) > LONGEST_VALUE:
                    raise unusable(name, value, f"at most {LONGEST_VALUE} characters")
                if "\0" in value:  # where it is, a text ends for SQLite
                    raise unusable(name, value, "a text without the character of number 0")
            self._given[name] = kept

    def texts(self, name: str) -> tuple[str, ...]:
        return self._given.get(name, ())

    def text(self, name: str) -> str:
        """The one value; empty where there is none."""
        values = self.texts(name)
        if len(values) > 1:
            raise _refused(f"{name} is given {len(values)} times: give it once")
        return values[0] if values else ""

    def one_of(self, name: str, allowed: Sequence[str], default: str) -> str:
        return chosen(name, self.text(name), allowed) if self.text(name) else default

    def some_of(self, name: str, allowed: Sequence[str]) -> tuple[str, ...]:
        return tuple(chosen(name, value, allowed) for value in self.texts(name))

    def truth(self, name: str) -> bool | None:
        value = self.text(name)
        return None if not value else chosen(name, value, ("true", "false")) == "true"

    def naturals(self, name: str) -> tuple[int, ...]:
        return tuple(_read(name, value, _natural, "a whole number") for value in self.texts(name))

    def natural(self, name: str, default: int, least: int = 0, most: int = LARGEST) -> int:
        value = self.text(name)
        if not value:
            return default
        allowed = f"a whole number from {least}" + (f" to {most}" if most < LARGEST else "")
        number = _read(name, value, _natural, allowed)
        if not least <= number <= most:
            raise unusable(name, value, allowed)
        return number

    def number(self, name: str) -> float | None:
        value = self.text(name)
        return _read(name, value, _finite, "a finite number") if value else None


def chosen(name: str, value: str, allowed: Sequence[str]) -> str:
    """The value, if it is one of those allowed. Raises PageError."""
    if value not in allowed:
        close = suggestion(value[:_SHOWN], allowed)
        raise unusable(name, value, f"one of {', '.join(allowed)}", close)
    return value


def unusable(name: str, value: str, allowed: str, hint: str = "") -> PageError:
    """The error that says what is wrong with a value."""
    return _refused(f"{name}={value[:_SHOWN]!r} cannot be used{hint}: give {allowed}")


def _refused(message: str) -> PageError:
    return PageError(HTTPStatus.BAD_REQUEST, message)


def _read(name: str, value: str, reader: Callable[[str], _T], allowed: str) -> _T:
    try:
        return reader(value)
    except ValueError as error:
        raise unusable(name, value, allowed) from error


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) > LARGEST:
        raise ValueError(text)
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number
