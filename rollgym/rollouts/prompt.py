"""Prompt templates: a YAML file whose texts become the input of every row.

    system: You answer in one word.
    user: |
      Question: {question}

`{name}` is a field of the row, `{name[key]}` a value inside of one, and doubled braces are braces.
`user` is required. A row with an input of its own cannot have a template too. So one dataset of
plain fields can be tried with several prompts.
"""

from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import msgspec

from rollgym.records import Row, RowError
from rollgym.rollouts import rows
from rollgym.store import InputsError
from rollgym.store.errors import storage_errors

_OBJECT = msgspec.json.Decoder(dict[str, Any])


class _Texts(msgspec.Struct, forbid_unknown_fields=True):
    user: str
    system: str | None = None


class _RowFormatter(Formatter):
    """Formats with items of JSON values. Attributes of Python objects are not looked up."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        if "." in field_name:
            raise RowError(f"{{{field_name}}}: the name of a field has no dots; write {{a[b]}}")
        try:
            return super().get_field(field_name, args, kwargs)
        except (KeyError, IndexError, TypeError) as error:
            raise RowError(
                f"the template uses {{{field_name}}}, which the row does not have; its fields are "
                f"{', '.join(kwargs)}"
            ) from error


class PromptTemplate:
    """The templates of a file. `apply` gives a row its input."""

    def __init__(self, path: Path, texts: _Texts) -> None:
        """Raises InputsError where a text is not a template."""
        self.path = path
        self._texts = {"system": texts.system, "user": texts.user}
        for role, text in self._texts.items():
            try:
                names = [name for _, name, _, _ in Formatter().parse(text or "")]
            except ValueError as error:
                raise InputsError(f"{path}: `{role}` is not a template: {error}") from error
            if any(name is not None and not name[:1].isidentifier() for name in names):
                raise InputsError(
                    f"{path}: `{role}`: braces must hold the name of a field, or be doubled"
                )

    @classmethod
    def read(cls, path: Path) -> "PromptTemplate":
        """Raises InputsError for a file that holds no templates, StorageError."""
        with storage_errors(path, "reading the prompt templates"):
            text = path.read_bytes()
        try:
            return cls(path, msgspec.yaml.decode(text, type=_Texts))
        except (msgspec.DecodeError, RecursionError) as error:
            raise InputsError(
                f"{path} does not hold prompt templates, `user` and perhaps `system`: {error}"
            ) from error

    def apply(self, row: Row) -> Row:
        """The row with the input that the templates make. Raises RowError."""
        params = rows.object_fields(row.fields.get(rows.PARAMS)) or {}
        given = params.get("input")
        if given is not None and bytes(given) not in (b"null", b"[]", b'""'):
            raise RowError(
                f"{rows.PARAMS}.input is given, and {self.path} would replace it: use one of them"
            )
        messages = [{"role": role, "content": text} for role, text in self._filled(row)]
        return row.with_fields({rows.PARAMS: {**params, "input": messages}})

    def _filled(self, row: Row) -> Iterator[tuple[str, str]]:
        fields = _OBJECT.decode(row.raw)
        for role, text in self._texts.items():
            if text is None:
                continue
            try:
                yield role, _RowFormatter().vformat(text, (), fields)
            except RowError:
                raise
            except ValueError as error:
                raise RowError(f"the template `{role}` does not fit the row: {error}") from error
