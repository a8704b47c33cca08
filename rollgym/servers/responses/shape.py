"""Strict reading of JSON from requests and endpoints.

A reader returns the value in the type it must have, or raises `ShapeError` with the place and what
was found there. The readers of nested values add the outer places while the error passes them, so
places cost nothing in valid JSON. The entry points turn a ShapeError into the typed error of their
boundary: a malformed request, or a malformed response.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from rollgym.records import RolloutError

JsonObject: TypeAlias = dict[str, Any]
T = TypeVar("T")

_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


class ShapeError(Exception):
    """A value is not what it must be. `where` is its place, `problem` what is wrong with it."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}" if self.where else self.problem

    def within(self, place: str) -> "ShapeError":
        """The same problem seen from outside `place`."""
        separator = "." if self.where and not self.where.startswith("[") else ""
        return ShapeError(f"{place}{separator}{self.where}", self.problem)


class at:  # noqa: N801 - reads as a statement: `with at("message"):`
    """Name the place of what is read in this block."""

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, ShapeError):
            raise error.within(self._place) from None


@contextmanager
def shape_errors_as(error: type[RolloutError], subject: str) -> Iterator[None]:
    """Turn a ShapeError in this block into `error`, with `subject` in its message."""
    try:
        yield
    except ShapeError as problem:
        raise error(f"{subject}: {problem}") from None


def convert_each(
    name: str, values: Iterable[object], convert: Callable[[JsonObject], T]
) -> list[T]:
    """Convert every object of the array called `name`; an error names the index."""
    converted: list[T] = []
    for index, value in enumerate(values):
        try:
            converted.append(convert(as_object(value)))
        except ShapeError as error:
            raise error.within(f"{name}[{index}]") from None
    return converted


def as_object(value: object, where: str = "") -> JsonObject:
    if isinstance(value, dict):
        return value
    raise _unexpected(value, "an object", where)


def get_object(source: JsonObject, name: str) -> JsonObject:
    return as_object(source.get(name), name)


def get_optional_object(source: JsonObject, name: str) -> JsonObject:
    """The object called `name`; empty where there is none."""
    value = source.get(name)
    return {} if value is None else as_object(value, name)


def as_array(value: object, where: str = "") -> list[Any]:
    if isinstance(value, list):
        return value
    raise _unexpected(value, "an array", where)


def get_array(source: JsonObject, name: str) -> list[Any]:
    return as_array(source.get(name), name)


def get_optional_array(source: JsonObject, name: str) -> list[Any]:
    """The array called `name`; empty where there is none."""
    return [] if source.get(name) is None else get_array(source, name)


def get_text(source: JsonObject, name: str) -> str:
    value = source.get(name)
    if isinstance(value, str):
        return value
    raise _unexpected(value, "a string", name)


def get_optional_text(source: JsonObject, name: str) -> str | None:
    return None if source.get(name) is None else get_text(source, name)


def get_count(source: JsonObject, name: str) -> int:
    """A whole number of at least 0; 0 where it is missing."""
    value = source.get(name)
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise _unexpected(value, "a whole number", name)


def get_seconds(source: JsonObject, name: str) -> int:
    """A time in whole seconds; 0 where it is missing."""
    value = source.get(name)
    if value is None:
        return 0
    if isinstance(value, int | float) and math.isfinite(value):
        return int(value)
    raise _unexpected(value, "a time in seconds", name)


def _unexpected(value: object, expected: str, where: str) -> ShapeError:
    found = _NAMES.get(type(value), type(value).__name__)
    return ShapeError(where, f"must be {expected}, not {found}")
