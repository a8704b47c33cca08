"""A row of a user's JSONL file, kept byte for byte.

Rows come from files of other programs and go to files that other programs read. A row therefore
keeps its bytes: fields are decoded on access, new fields are inserted, and everything else
(unknown fields, 1.0 or 1, the order of keys) stays unchanged.
"""

from collections.abc import Mapping
from typing import Any, Self, TypeVar, overload

import msgspec

from rollgym.records.decoding import JsonDecoder

T = TypeVar("T")
_FIELDS = JsonDecoder(dict[str, msgspec.Raw])


class _Skipped(msgspec.Struct):
    """Any JSON object; the values of its fields are checked and skipped."""


_OBJECT = JsonDecoder(_Skipped)
_encode = msgspec.json.Encoder().encode
_DECODERS: dict[Any, JsonDecoder[Any]] = {}


def _new_decoder(as_type: Any) -> JsonDecoder[Any]:
    """Kept for each type, because making a decoder takes longer than decoding a short value."""
    decoder = _DECODERS[as_type] = JsonDecoder(as_type)
    return decoder


CALLS_FIELD = "rollgym_calls"
"""The calls of an agent that the gateway served, in the row of its rollout."""


class RowError(ValueError):
    """The bytes are not one JSON object in UTF-8."""


class Row:
    """One JSON object, immutable, with the exact bytes it was read from in `raw`."""

    __slots__ = ("_parts", "fields", "raw")

    raw: bytes
    fields: Mapping[str, msgspec.Raw]
    """Every field with its value undecoded, in order. Set when it is read for the first time."""

    def __init__(self, raw: bytes) -> None:
        """Wrap bytes known to be one JSON object; `parse` checks other bytes."""
        self.raw = raw
        self._parts: tuple[Mapping[str, msgspec.Raw], bytes] | None = None

    @classmethod
    def parse(cls, line: bytes, *, lazily: bool = False) -> Self:
        """Check and wrap a line. Raises RowError with the reason and the byte.

        With `lazily`, the fields are only separated when one is read.
        """
        row = cls(line.strip(b" \t\r\n"))
        try:
            if not row.raw.isascii():
                row.raw.decode("utf-8")
            if lazily:
                _OBJECT.decode(row.raw)
            else:
                row.fields = _FIELDS.decode(row.raw)
        except UnicodeDecodeError as error:
            raise RowError(f"not UTF-8 text at byte {error.start}") from error
        except msgspec.ValidationError as error:
            raise RowError("not a JSON object") from error
        except msgspec.DecodeError as error:
            raise RowError(str(error)) from error
        return row

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Build a row from values."""
        return cls(msgspec.json.encode(fields))

    def __getattr__(self, name: str) -> Mapping[str, msgspec.Raw]:
        """Separate the fields. Called only while they are not set, so later reads cost nothing."""
        if name != "fields":
            raise AttributeError(f"a row has no {name}")
        if self._parts is None:
            self.fields = _FIELDS.decode(self.raw)
        else:  # those of the row that it was made from are known
            known, added = self._parts
            self.fields, self._parts = {**known, **_FIELDS.decode(added)}, None
        return self.fields

    @overload
    def get(self, name: str, as_type: type[T]) -> T | None: ...
    @overload
    def get(self, name: str, as_type: type[T], default: T) -> T: ...
    def get(self, name: str, as_type: type[T], default: T | None = None) -> T | None:
        """Decode one field; return `default` for a missing one.

        Raises RowError when the value has another type.
        """
        raw = self.fields.get(name)
        if raw is None:
            return default
        try:
            decoder = _DECODERS.get(as_type) or _new_decoder(as_type)
            value: T = decoder.decode(raw)
        except msgspec.DecodeError as error:
            raise RowError(f"field {name!r}: {error}") from error
        return value

    def with_fields(self, changes: Mapping[str, Any]) -> "Row":
        """Return the row with fields set; the bytes of all other fields stay unchanged."""
        if not changes:
            return self
        fields = self.fields
        if fields.keys().isdisjoint(changes):
            separator = b"," if fields else b""
            added = _encode(changes)
            row = Row(self.raw[:-1].rstrip() + separator + added[1:])
            row._parts = fields, added
            return row
        return Row(_encode({**fields, **changes}))

    def with_json(self, name: str, value: msgspec.Raw) -> "Row":
        """As `with_fields`, with one field whose JSON is known and need not be separated again."""
        row = self.with_fields({name: value})
        row.fields = {**self.fields, name: value}
        return row

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        shown = self.raw if len(self.raw) <= 80 else self.raw[:77] + b"..."
        return f"Row({shown.decode('utf-8', 'replace')})"
