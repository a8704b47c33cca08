"""How much of anything one visitor can make us keep."""

from typing import TypeVar

T = TypeVar("T")

REQUEST_BYTES = 64 * 1024
FIELD_CHARACTERS = 300
FIELDS = 60
SEARCHES_KEPT = 50


def remember(kept: list[T], item: T, limit: int) -> None:
    """Append; beyond the limit the oldest is forgotten."""
    kept.append(item)
    del kept[:-limit]
