"""What the parts of a configuration are made of: kinds of values, and sections of keys.

Sections are pydantic models whose keys have descriptions. `null` stands for the default of a key
wherever it has no meaning of its own.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
)
from pydantic.fields import FieldInfo

MISSING = "???"
"""How a configuration file says that a value has to be given."""
KeyPath = tuple[str, ...]


def number(value: object) -> object:
    """`true` is no number, though Python takes it for one."""
    if isinstance(value, bool):
        raise ValueError("a number is needed")  # noqa: TRY004 - what pydantic takes for a refusal
    return value


def _size(value: int) -> int:
    if value == 0 or value < -1:
        raise ValueError("give -1 for all, or how many")
    return value


def _texts(value: object) -> object:
    """Keys as they were written: YAML reads `7: 1` as a number's."""
    return {str(key): each for key, each in value.items()} if isinstance(value, dict) else value


def _weights(value: object) -> object:
    if value is None or value == "" or isinstance(value, str):
        return value or None
    if isinstance(value, int | float):
        return str(value)  # one rank: `rank_weights=1`
    return ",".join(str(each) for each in value) if isinstance(value, list | tuple) else value


def _weights_written(value: str) -> str:
    if not re.fullmatch(r"\s*\d+(\.\d+)?\s*(,\s*\d+(\.\d+)?\s*)*", value):
        raise ValueError('give one weight for each rank, as in "2,1,1"')
    return value


Count = Annotated[int, BeforeValidator(number), Field(ge=1)]
Natural = Annotated[int, BeforeValidator(number), Field(ge=0)]
Size = Annotated[int, BeforeValidator(number), AfterValidator(_size)]
Positive = Annotated[float, BeforeValidator(number), Field(gt=0, allow_inf_nan=False)]
Amount = Annotated[float, BeforeValidator(number), Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(number), Field(gt=0, le=1)]
Probability = Annotated[float, BeforeValidator(number), Field(ge=0, le=1)]
Port = Annotated[int, BeforeValidator(number), Field(ge=1, le=65_535)]
Text = Annotated[str, Field(min_length=1)]
Ratio = Annotated[dict[str, Amount], BeforeValidator(_texts)]
RankWeights = Annotated[
    Annotated[str, AfterValidator(_weights_written)] | None, BeforeValidator(_weights)
]


class Section(BaseModel):
    """A part of the configuration. Unknown keys are mistakes.

    `is_one_key`: whoever lists keys names it as a whole, not each of its own.
    """

    is_one_key: ClassVar[bool] = False

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _null_is_the_default(cls, value: object, info: Any) -> object:
        field = cls.model_fields[info.field_name]
        is_default = value is None and not field.is_required() and not _may_be_null(field)
        return field.default if is_default else value

    @property
    def plain(self) -> dict[str, Any]:
        """Its values as a configuration file would have them."""
        return self.model_dump(mode="json", by_alias=True)

    @classmethod
    def keys(cls) -> dict[str, FieldInfo]:
        """Its keys, as they are written."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}


S = TypeVar("S", bound=Section)


def usual(section: type[S]) -> S:
    """The section with the defaults of all its keys."""
    return section.model_validate({})


class Key(BaseModel):
    """One key, for those who list them; `default` is MISSING where a value has to be given."""

    model_config = ConfigDict(frozen=True)

    path: KeyPath
    description: str
    default: Any

    @property
    def name(self) -> str:
        return ".".join(self.path)


def keys_of(section: type[Section], path: KeyPath = ()) -> Iterator[Key]:
    """Every key that has a value of its own, in order, with those of the sections inside."""
    for name, field in section.keys().items():
        here, inner = (*path, name), section_in(field)
        if inner is None or inner.is_one_key or _may_be_null(field):
            default = MISSING if field.is_required() else _as_written(field.default)
            yield Key(path=here, description=field.description or "", default=default)
        if inner is not None and not inner.is_one_key:
            yield from keys_of(inner, here)


def section_in(field: FieldInfo) -> type[Section] | None:
    """The section that stands at a key, if one does."""
    kinds = (field.annotation, *getattr(field.annotation, "__args__", ()))
    found = (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Section))
    return next(found, None)


def _may_be_null(field: FieldInfo) -> bool:
    return type(None) in getattr(field.annotation, "__args__", ())


def _as_written(value: object) -> object:
    if isinstance(value, Section):
        return value.plain
    if isinstance(value, tuple):
        return list(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value
