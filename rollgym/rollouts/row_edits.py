"""Rows with something taken out or merged in; all bytes that are not named stay the same."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from rollgym.records import Row


def without(row: Row, names: Collection[str]) -> Row:
    """The row less the fields of these names."""
    if row.fields.keys().isdisjoint(names):
        return row
    return Row.of({name: raw for name, raw in row.fields.items() if name not in names})


def merged(row: Row, overrides: Mapping[str, Any]) -> Row:
    """The row with overrides, which reach into objects."""
    changes: dict[str, Any] = {}
    for name, value in overrides.items():
        present = row.fields.get(name)
        if isinstance(value, Mapping) and present is not None and bytes(present).startswith(b"{"):
            changes[name] = msgspec.Raw(merged(Row(bytes(present)), value).raw)
        else:
            changes[name] = value
    return row.with_fields(changes)
