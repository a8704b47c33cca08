"""Parquet files of examples, as `datasets` and other readers of Parquet open them.

*Columns.* Numbers, texts and lists of them are columns of Arrow's own types. Everything else, such
as messages and tools, is JSON of Arrow's type `arrow.json`, because a struct would add every key of
any row to all rows: the arguments of one tool would appear as nulls in the calls of the others, and
a chat template would write them. The metadata says so in the way of `datasets`, which decodes such
a column to the objects that were written, and images to pictures.

*Two passes.* The types of the columns are known after the last example, so the examples are first
written to an unnamed temporary file. Memory is one group of rows.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from io import RawIOBase
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rollgym.export.images import IMAGES, read_image
from rollgym.export.source import ExportError, RolloutSource
from rollgym.servers.responses import JsonObject
from rollgym.store import write_derived

PARQUET = ".parquet"
GROUP_ROWS = 1000
GROUP_BYTES = 32 << 20
_BASES: dict[type, str] = {
    type(None): "",
    bool: "bool_",
    int: "int64",
    float: "float64",
    str: "string",
}
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def require_pyarrow() -> Any:
    """The module `pyarrow`. Raises ExportError with the way to install it."""
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ExportError(
            "Parquet files need the package pyarrow, which is not installed: "
            'pip install "rollgym[parquet]". Or choose an output that ends in .jsonl.'
        ) from error


def write_parquet(path: Path, lines: Iterable[bytes], source: RolloutSource) -> None:
    """Write examples, one JSON object each, as a Parquet file; as a whole or not at all.

    Raises ExportError, StorageError, and what the lines raise.
    """
    pyarrow = require_pyarrow()
    with tempfile.TemporaryFile() as spooled:
        columns: dict[str, ColumnKind] = {}
        for line in lines:
            for name, value in _OBJECT.decode(line).items():
                columns[name] = columns.get(name, _UNKNOWN).joined(_kind_of(value))
            spooled.write(line)
        spooled.seek(0)
        write_derived(path, _Writer(pyarrow, columns, source).parts(spooled))


class ColumnKind(NamedTuple):
    """The type of a column's values, or of their members: a name of Arrow or `json`; empty while
    there were only nulls. `is_list` is None while it is unknown."""

    base: str = ""
    is_list: bool | None = None

    def joined(self, other: "ColumnKind") -> "ColumnKind":
        """The kind of a column that has values of both kinds."""
        if None not in (self.is_list, other.is_list) and self.is_list != other.is_list:
            return ColumnKind("json", False)
        is_list = other.is_list if self.is_list is None else self.is_list
        return ColumnKind(_wider({self.base, other.base}), is_list)

    @property
    def type_name(self) -> str:
        return self.base or "json"


_UNKNOWN = ColumnKind()


def _kind_of(value: object) -> ColumnKind:
    if isinstance(value, list):
        return ColumnKind(
            _wider({_BASES.get(each, "json") for each in set(map(type, value))}), True
        )
    return _UNKNOWN if value is None else ColumnKind(_BASES.get(type(value), "json"), False)


def _wider(bases: set[str]) -> str:
    named = bases - {""}
    if len(named) <= 1:
        return next(iter(named), "")
    return "float64" if named == {"int64", "float64"} else "json"


class _Writer:
    """Turns lines of examples into the bytes of a Parquet file."""

    def __init__(
        self, pyarrow: Any, columns: Mapping[str, ColumnKind], source: RolloutSource
    ) -> None:
        self._arrow = pyarrow
        self._columns = columns
        self._source = source
        features = {name: _feature(name, kind) for name, kind in columns.items()}
        metadata = {"huggingface": msgspec.json.encode({"info": {"features": features}})}
        fields = [(name, self._type(name, kind)) for name, kind in columns.items()]
        self._schema = pyarrow.schema(fields, metadata=metadata)

    def parts(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        sink = _Sink()
        with import_module("pyarrow.parquet").ParquetWriter(sink, self._schema) as writer:
            for rows in self._row_groups(lines):
                writer.write_table(self._table(rows))
                yield sink.taken()
        yield sink.taken()

    def _row_groups(self, lines: Iterable[bytes]) -> Iterator[list[JsonObject]]:
        rows: list[JsonObject] = []
        size = 0
        for line in lines:
            row = _OBJECT.decode(line)
            if IMAGES in row:
                images = [read_image(self._source, url) for url in row[IMAGES]]
                row[IMAGES] = [{"bytes": each.content, "path": each.name} for each in images]
                size += sum(len(each.content) for each in images)
            rows.append(row)
            size += len(line)
            if len(rows) == GROUP_ROWS or size >= GROUP_BYTES:
                yield rows
                rows, size = [], 0
        if rows:
            yield rows

    def _table(self, rows: Sequence[JsonObject]) -> Any:
        arrays = [
            self._array(kind, self._schema.field(name).type, [row.get(name) for row in rows])
            if name != IMAGES
            else self._arrow.array([row.get(name) for row in rows], self._schema.field(name).type)
            for name, kind in self._columns.items()
        ]
        return self._arrow.Table.from_arrays(arrays, schema=self._schema)

    def _array(self, kind: ColumnKind, arrow_type: Any, values: list[Any]) -> Any:
        if kind.type_name != "json":
            return self._arrow.array(values, arrow_type)
        texts = [
            None
            if value is None
            else [_json(member) for member in value]
            if kind.is_list
            else _json(value)
            for value in values
        ]
        text = self._arrow.string()
        storage = self._arrow.array(texts, self._arrow.list_(text) if kind.is_list else text)
        return storage.cast(arrow_type)

    def _type(self, name: str, kind: ColumnKind) -> Any:
        arrow = self._arrow
        if name == IMAGES:
            return arrow.list_(arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())]))
        base = arrow.json_() if kind.type_name == "json" else getattr(arrow, kind.type_name)()
        return arrow.list_(base) if kind.is_list else base


def _feature(name: str, kind: ColumnKind) -> JsonObject:
    """The column as `datasets` describes it."""
    if name == IMAGES:
        return {"feature": {"_type": "Image"}, "_type": "List"}
    base = (
        {"_type": "Json"}
        if kind.type_name == "json"
        else {"dtype": kind.type_name.rstrip("_"), "_type": "Value"}
    )
    return {"feature": base, "_type": "List"} if kind.is_list else base


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


class _Sink(RawIOBase):
    """A file in memory from whose beginning the bytes are taken while it is written."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any, /) -> int:
        self._parts.append(bytes(data))
        self._size += len(self._parts[-1])
        return len(self._parts[-1])

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)
