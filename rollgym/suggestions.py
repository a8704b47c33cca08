"""Suggesting a known name in place of an unknown one."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known name that is closest to this one; None where none has this likeness, up to 1."""
    close = get_close_matches(name, list(known), 1, likeness)
    return close[0] if close else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` where a known name is close, empty otherwise."""
    close = nearest(name, known)
    return f" (did you mean {close!r}?)" if close else ""


def advice(name: str, known: Iterable[str], otherwise: str) -> str:
    """`did you mean x?` where a known name is close, otherwise this advice."""
    close = nearest(name, known)
    return f"did you mean {close}?" if close else otherwise
