"""What a rollout spent on models, by the names that we give it."""

import msgspec

from rollgym.rollouts.fields import METADATA
from rollgym.viewer.documents.response import response_facts
from rollgym.viewer.values import ABSENT, Fields, count_of, fields_of, read

_TOLD = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "total_tokens")
_WITHIN = {
    "cached_tokens": "input_tokens_details",
    "reasoning_tokens": "output_tokens_details",
}


class _Metadata(msgspec.Struct, frozen=True):
    usage: msgspec.Raw = ABSENT


_METADATA = msgspec.json.Decoder(_Metadata)


def usage_of(row: Fields) -> dict[str, int]:
    """Of the metadata where it counts anything, else of the response."""
    metadata = read(row.get(METADATA), _METADATA) or _Metadata()
    return _counts(metadata.usage) or _counts(response_facts(row).usage)


def _counts(raw: msgspec.Raw) -> dict[str, int]:
    usage = fields_of(raw) or {}
    counts = {name: _count(usage, name) for name in _TOLD}
    told = {name: count for name, count in counts.items() if count is not None}
    return told if any(told.values()) else {}


def _count(usage: Fields, name: str) -> int | None:
    if name in usage or name not in _WITHIN:
        return count_of(usage.get(name))
    return count_of((fields_of(usage.get(_WITHIN[name])) or {}).get(name))
