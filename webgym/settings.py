"""Settings sections: the typed parts of a configuration, and how their problems are reported.

A section is a pydantic model whose keys have a default and a description. Each key is declared
once, in the package that uses it; `webgym.rollout.settings` puts the sections together. The help
text, the YAML files in `scripts/config` and the table in `docs/web-agents.md` show the same keys.

`null` stands for the default of a key unless `null` has a meaning for this key. `read_settings`
takes a dictionary or a Hydra node and reports every problem at once, with key, origin and remedy.
"""

import inspect
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo

from rollgym.store import RefusedError
from rollgym.suggestions import nearest

COMMAND_LINE = "command line"
"""The origin of a key that an argument of the command sets."""
MISSING = "???"
"""How a configuration file says that a value must be given."""
KeyPath = tuple[str, ...]
KeyOrigin = Callable[[KeyPath], str]
"""Says where a key was set, such as `command line`; empty where the origin is unknown."""
_PACKAGE = str(Path(__file__).parent)
_MESSAGES = {"model_type": "a mapping of keys to values is needed"}
Text = Annotated[str, Field(min_length=1)]


class WebSettingsError(RefusedError):
    """The configuration cannot be used; nothing was started."""

    def __init__(self, message: str, *, is_misuse: bool = False) -> None:
        super().__init__(message)
        self.is_misuse = is_misuse


class UnknownKeyWarning(UserWarning):
    """A configuration has a key that rollgym does not know and does not use."""


class SettingsSection(BaseModel):
    """A part of the configuration. Unknown keys are problems."""

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
        """The values as a configuration file would have them."""
        return self.model_dump(mode="json", by_alias=True)

    @classmethod
    def keys(cls) -> dict[str, FieldInfo]:
        """The keys as they are written."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}


S = TypeVar("S", bound=SettingsSection)


class SettingKey(NamedTuple):
    """One key, for listings. `default` is MISSING where a value must be given."""

    path: KeyPath
    description: str
    default: Any

    @property
    def name(self) -> str:
        return ".".join(self.path)


def keys_of(section: type[SettingsSection], path: KeyPath = ()) -> Iterator[SettingKey]:
    """Every key that has a value, in order, including the keys of nested sections."""
    for name, field in section.keys().items():
        here, inner = (*path, name), section_in(field)
        if inner is None or _may_be_null(field):
            default = MISSING if field.is_required() else _as_written(field)
            yield SettingKey(here, field.description or "", default)
        if inner is not None:
            yield from keys_of(inner, here)


def section_in(field: FieldInfo) -> type[SettingsSection] | None:
    """The section that the value of a key is, if it is one."""
    kinds = (field.annotation, *getattr(field.annotation, "__args__", ()))
    found = (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, SettingsSection))
    return next(found, None)


def read_settings(
    section: type[S],
    given: object,
    *,
    name: str = "",
    origin: KeyOrigin = lambda _: "",
) -> S:
    """Read a section from a dictionary, a Hydra node or None, which means all defaults.

    A section that was read already is returned unchanged. `name` is the key that the section stands
    at, for messages. Raises WebSettingsError with every problem.
    """
    if isinstance(given, section):
        return given
    values = plain_mapping(given, name)
    found = problems_in(section, values, name=name, origin=origin)
    if found:
        text = "\n".join(["The settings cannot be used:", *found])
        raise WebSettingsError(text, is_misuse=f"({COMMAND_LINE})" in text)
    return section.model_validate(_without_missing(values))


def known_values(
    section: type[SettingsSection],
    given: object,
    *,
    name: str,
    only: Collection[str] | None = None,
) -> dict[str, Any]:
    """The values of known keys, for constructors that get configurations of other programs.

    Each unknown key is an UnknownKeyWarning that names the nearest known one. Raises
    WebSettingsError where `given` is not a mapping.
    """
    return _known(section, plain_mapping(given, name), (name,), only)


def read_known(section: type[S], given: object, *, name: str) -> S:
    """As `read_settings`, but unknown keys are warnings, as with `known_values`."""
    if isinstance(given, section):
        return given
    return read_settings(section, known_values(section, given, name=name), name=name)


def _known(
    section: type[SettingsSection],
    values: Mapping[str, Any],
    path: KeyPath,
    only: Collection[str] | None = None,
) -> dict[str, Any]:
    fields = {name: field for name, field in section.keys().items() if only is None or name in only}
    known: dict[str, Any] = {}
    for key, value in values.items():
        field = fields.get(str(key)) or section.model_fields.get(str(key) if only is None else "")
        if field is None:
            close = nearest(str(key), fields, 0.0)
            hint = f"; the nearest known key is {'.'.join((*path, close))}" if close else ""
            text = f"{'.'.join((*path, str(key)))} is unknown and not used{hint}"
            warnings.warn(text, UnknownKeyWarning, stacklevel=_stack_to_caller())
            continue
        inner = section_in(field)
        if inner is not None and isinstance(value, Mapping):
            known[str(key)] = _known(inner, value, (*path, str(key)))
        else:
            known[str(key)] = value
    return known


def _stack_to_caller() -> int:
    """From a warning to the code outside of this package that calls a constructor."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def plain_mapping(given: object, name: str = "") -> dict[str, Any]:
    """A dictionary or a Hydra node as a plain dictionary. Raises WebSettingsError."""
    plain = {} if given is None else plain_value(given)
    if not isinstance(plain, Mapping):
        kind = type(plain).__name__
        raise WebSettingsError(f"{name or 'the configuration'} must be a dictionary, not {kind}")
    return {str(key): value for key, value in plain.items()}


def plain_value(value: object) -> object:
    """A Hydra node as the containers it stands for; any other value unchanged.

    Raises WebSettingsError where the node refers to a missing value.
    """
    if not isinstance(value, DictConfig | ListConfig):
        return value
    try:
        return OmegaConf.to_container(value, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise WebSettingsError(f"the configuration cannot be resolved: {reason}") from error


def problems_in(
    section: type[SettingsSection],
    values: Mapping[str, Any],
    *,
    name: str = "",
    origin: KeyOrigin = lambda _: "",
) -> list[str]:
    """What is wrong with these values: one indented line for each key."""
    root: KeyPath = (name,) if name else ()
    errors: dict[KeyPath, list[Any]] = {}
    try:
        section.model_validate(_without_missing(values))
    except ValidationError as error:
        for each in error.errors(include_url=False):
            errors.setdefault(_key_of(section, each["loc"]), []).append(each)
    lines = []
    for key, found in errors.items():
        written, first = ".".join((*root, *key)), found[0]
        place = origin((*root, *key))
        where = f" ({place})" if place else ""
        match first["type"]:
            case "missing":
                lines.append(f"  {written} is missing: set {written}=…")
            case "extra_forbidden":
                hint = _similar_key(section, key, root)
                lines.append(f"  {written}: unknown key; {hint}{where}")
            case _ if isinstance(first["input"], Mapping) and first["type"] == "value_error":
                lines.append(f"  {written}: {_expected(found)}{where}")
            case _:
                value = f"{first['input']!r:.200}"
                lines.append(f"  {written}: {_expected(found)}, not {value}{where}")
    return lines


def _without_missing(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        str(key): _without_missing(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if not (isinstance(value, str) and value == MISSING)
    }


def _key_of(section: type[SettingsSection], location: tuple[int | str, ...]) -> KeyPath:
    """The key that a location of pydantic is about, without the names of union members."""
    key: list[str] = []
    known: type[SettingsSection] | None = section
    for part in map(str, location):
        if known is None:
            break
        if part == known.__name__:
            continue
        key.append(part)
        field = known.keys().get(part)
        known = section_in(field) if field else None
    return tuple(key)


def _expected(found: list[Any]) -> str:
    """What the value may be; all alternatives where it may be several things."""
    messages = [
        _MESSAGES.get(each["type"], str(each["msg"]).removeprefix("Value error, "))
        for each in found
    ]
    return ", or ".join(dict.fromkeys(text[:1].lower() + text[1:] for text in messages))


def _similar_key(section: type[SettingsSection], key: KeyPath, root: KeyPath) -> str:
    """Suggest a key with a similar name beside the unknown one, or with the same name elsewhere."""
    *parents, name = key
    beside = _keys_beside(section, parents)
    close = nearest(name, beside)
    elsewhere = sorted(each.path for each in keys_of(section) if each.path[-1] == name)
    if close:
        return f"did you mean {'.'.join((*root, *parents, close))}?"
    if elsewhere and not root:
        return f"did you mean {'.'.join(elsewhere[0])}?"
    return f"the keys are {', '.join(beside)}" if root else "--help lists all keys"


def _keys_beside(section: type[SettingsSection], parents: Sequence[str]) -> list[str]:
    for parent in parents:
        inner = section_in(section.keys()[parent])
        if inner is None:
            return []
        section = inner
    return list(section.keys())


def _may_be_null(field: FieldInfo) -> bool:
    return type(None) in getattr(field.annotation, "__args__", ())


def _as_written(field: FieldInfo) -> object:
    value = field.default
    if isinstance(value, SettingsSection):
        return value.plain
    if isinstance(value, tuple):
        return list(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value
