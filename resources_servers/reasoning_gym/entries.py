"""Entries of reasoning-gym in JSON, which knows no tuples.

The package compares tuples with lists in a few places. Where it matters for the score, the tuples
are restored; `generate` refuses entries whose own answer scores differently after the journey.
"""

from typing import Any

_TUPLES = {"arc_agi": ("input", "output"), "rearc": ("input", "output")}


def revived(dataset: str, entry: dict[str, Any]) -> dict[str, Any]:
    """An entry that was JSON as its dataset's scorer wants it."""
    metadata = entry["metadata"]
    restored = {
        name: _as_tuples(metadata[name]) for name in _TUPLES.get(dataset, ()) if name in metadata
    }
    return {**entry, "metadata": {**metadata, **restored}}


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value
