"""What a setting means to a run: part of its identity, a secret, or neither.

The class that declares a setting says so on the field, with a mark inside `Annotated`:

    class JudgeConfig(ResourcesConfig):
        judge_model: str                                     # part of the run's identity
        judge_url: Annotated[str, Setting.ADDRESS]           # may change when a run is resumed
        judge_timeout: Annotated[float, Setting.TIMING] = 60.0
        judge_key: Annotated[str, Setting.SECRET] = ""       # never shown, never written to disk

Pydantic models and msgspec structs can be marked alike. A field without a mark belongs to the
identity. Two things protect credentials whose mark was forgotten: a field of type `SecretStr` is a
secret, and so is every setting that is named like one (`api_key`, `password`, `auth_token`).

A class declares all settings of its server: further ones, which some classes allow, belong to the
identity too. Only where no class is known, as for a server that runs elsewhere, settings are judged
by their name: credentials, addresses, concurrency and timing do not belong to the identity, and
neither does a value that is a URL. Everything else does.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    TypeAlias,
    TypeGuard,
    get_args,
    get_type_hints,
)

import msgspec

if TYPE_CHECKING:
    from pydantic import BaseModel

    SettingsClass: TypeAlias = type[BaseModel] | type[msgspec.Struct]
else:  # a run without pydantic models does not load pydantic, which takes 9 MiB
    SettingsClass = type
HIDDEN = "***"
_SECRET_NAME = re.compile(
    r"(.*_)?(api_?keys?|keys|passwords?|passwd|secrets?|credentials?|authorization)"
    r"|(.*_)?(secret|private|access|auth|subscription|signing)_key|(x_)?key|(?!accept_)(.*_)?cookies?"
    r"|token|(.*_)?(access|api|auth|bearer|cluster|server|session|refresh|hf|id)_tokens?"
)
_SECRET_TEXT = re.compile(r"\bBearer\s+\S+|\bsk-[\w-]{8,}|(?<=://)[^/@\s:]++:[^/@\s]++(?=@)")
_OPERATIONAL_NAME = re.compile(
    # addresses
    r"(.*_)?(ur[il]s?|hosts?|hostname|host_ip|ports?|address(es)?|endpoints?)"
    # concurrency
    r"|(max_|model_|browser_|judge_)?concurrency|num_samples_in_parallel|(num_)?workers"
    r"|(num_)?processes|server_size|max_in_flight"
    # timing
    r"|(request|connect|model|tool|seed|verify)_timeout|server_patience|session_lifetime"
    r"|max_(request_bytes|answer_bytes|sessions|retries|rest_wait|retry_after)"
    r"|(backoff|rest)_(initial|maximum)|failures_before_rest"
)
_URL = re.compile(r"(https?|wss?|grpcs?|tcp|unix)://\S*", re.IGNORECASE)


class Setting(StrEnum):
    """Marks for settings that do not belong to the identity of a run."""

    SECRET = "secret"  # noqa: S105 - the name of the mark
    """A credential. It is never shown and never written to disk."""
    ADDRESS = "address"
    """Where something is: a host, a port, a URL."""
    TIMING = "timing"
    """How long things may take, how many run at once, and how they are tried again.

    Such a setting can make a rollout fail, but it cannot change a reward.
    """
    NOTE = "note"
    """Information for people that no program reads."""


class SettingsIdentity(msgspec.Struct, frozen=True):
    """The part of some settings that belongs to the identity of a run.

    `values` is flat: a dotted path to each value. `left_out` has the paths of the settings that do
    not belong to it, without their values.
    """

    values: dict[str, Any]
    left_out: frozenset[str] = frozenset()


def settings_identity(
    settings: Mapping[str, Any],
    declared: SettingsClass | None = None,
    *,
    complete: bool = True,
) -> SettingsIdentity:
    """Divide settings by the marks of their class, or without one by their name.

    `complete` is false where `declared` declares only a part of the settings; the names of the
    others decide. A value may itself be a marked struct or model, or a SettingsIdentity.
    Raises TypeError for a value that JSON cannot hold.
    """
    values: dict[str, Any] = {}
    left_out: set[str] = set()
    declaration = _declaration(declared, complete=complete)
    for path, value, belongs in _flatten(settings, "", declaration):
        if belongs:
            values[path] = value
        else:
            left_out.add(path)
    plain = msgspec.json.decode(msgspec.json.encode(values, order="sorted"))
    return SettingsIdentity(plain, frozenset(left_out))


def hide_secrets(
    settings: Mapping[str, Any], declared: SettingsClass | None = None
) -> dict[str, Any]:
    """A copy of the settings with `***` in place of every secret."""
    hidden: dict[str, Any] = _hide(settings, _declaration(declared, complete=False))
    return hidden


def hide_secrets_in_text(text: str) -> str:
    """The text with everything that looks like a credential replaced by `***`."""
    return _SECRET_TEXT.sub(HIDDEN, text)


def is_secret_name(name: str) -> bool:
    """Whether settings of this name usually hold a credential."""
    return _SECRET_NAME.fullmatch(_plain(name)) is not None


def is_operational(path: str, value: object) -> bool:
    """Whether a setting that no class declares stays out of the identity.

    This was the rule for all settings before they had marks: see `differences`.
    """
    names = (part.partition("[")[0] for part in path.split("."))
    return _is_url(value) or any(_is_operational_name(name) for name in names)


class _Field(NamedTuple):
    """A declared setting: its mark, and the classes that declare what it consists of."""

    mark: Setting | None
    inner: "_Declaration"


class _Declaration(NamedTuple):
    """What is known about the settings in a mapping.

    `classes` declare them. `by_name` says that the names decide about those that no class declares;
    inside a setting that is declared without a mark they all belong to the identity.
    """

    classes: tuple[SettingsClass, ...]
    by_name: bool

    def field(self, name: str) -> _Field:
        for declared in self.classes:
            known = _fields(declared).get(name)
            if known is not None:
                return _credential(name) or known
        if not self.by_name:
            return _credential(name) or _Field(None, _UNMARKED)
        operational = Setting.TIMING if _is_operational_name(name) else None
        return _credential(name) or _Field(operational, _UNDECLARED)


_UNDECLARED = _Declaration((), by_name=True)
_UNMARKED = _Declaration((), by_name=False)


def _declaration(declared: SettingsClass | None, *, complete: bool) -> _Declaration:
    return _Declaration((declared,), by_name=not complete) if declared else _UNDECLARED


def _credential(name: str) -> _Field | None:
    return _Field(Setting.SECRET, _UNMARKED) if is_secret_name(name) else None


@cache
def _fields(declared: SettingsClass) -> dict[str, _Field]:
    """The settings of a class, by the names that a configuration uses."""
    if issubclass(declared, msgspec.Struct):
        hints = get_type_hints(declared, include_extras=True)
        fields = msgspec.structs.fields(declared)
        return {field.encode_name: _field(hints[field.name]) for field in fields}
    return {
        field.alias or name: _field(Annotated[field.annotation, *field.metadata, None])
        for name, field in declared.model_fields.items()
    }


def _field(annotation: Any) -> _Field:
    parts = list(_parts(annotation))
    marks = [part for part in parts if isinstance(part, Setting)]
    if any(_is_secret_type(part) for part in parts):
        marks.insert(0, Setting.SECRET)
    classes = tuple(part for part in parts if _declares_settings(part))
    return _Field(marks[0] if marks else None, _Declaration(classes, by_name=False))


def _parts(annotation: Any) -> Iterator[Any]:
    """Everything that an annotation consists of: marks, classes, and what containers hold."""
    yield annotation
    for part in get_args(annotation):
        if part is not NoneType:
            yield from _parts(part)


def _declares_settings(part: object) -> TypeGuard[SettingsClass]:
    return isinstance(part, type) and (_is_model(part) or issubclass(part, msgspec.Struct))


def _is_model(declared: type) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(declared, pydantic.BaseModel)


def _is_secret_type(part: object) -> bool:
    pydantic = sys.modules.get("pydantic")
    secret_types = (pydantic.SecretStr, pydantic.SecretBytes) if pydantic else ()
    return any(part is each for each in secret_types)


def _flatten(value: Any, path: str, declaration: _Declaration) -> Iterator[tuple[str, Any, bool]]:
    """Every setting with its path, and whether it belongs to the identity."""
    match value:
        case SettingsIdentity():
            yield from ((_join(path, name), part, True) for name, part in value.values.items())
            yield from ((_join(path, name), None, False) for name in value.left_out)
        case _ if _declares_settings(type(value)):
            known = _Declaration((type(value),), by_name=False)
            yield from _flatten(_as_mapping(value), path, known)
        case Mapping() if value:
            for name, part in value.items():
                inner, field = _join(path, str(name)), declaration.field(str(name))
                if field.mark is None:
                    yield from _flatten(part, inner, field.inner)
                else:
                    yield inner, None, False
        case list() | tuple() if value:
            for number, part in enumerate(value):
                yield from _flatten(part, f"{path}[{number}]", declaration)
        case str():
            belongs = not (declaration is _UNDECLARED and _is_url(value))
            yield path, hide_secrets_in_text(value) if belongs else None, belongs
        case _:
            yield path, value, True


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _hide(value: Any, declaration: _Declaration) -> Any:
    match value:
        case Mapping():
            hidden = {}
            for name, part in value.items():
                field = declaration.field(str(name))
                secret = field.mark is Setting.SECRET and part not in (None, "")
                hidden[name] = HIDDEN if secret else _hide(part, field.inner)
            return hidden
        case list() | tuple():
            return [_hide(part, declaration) for part in value]
        case str():
            return hide_secrets_in_text(value)
        case _:
            return value


def _as_mapping(value: Any) -> dict[str, Any]:
    if _is_model(type(value)):
        return {
            field.alias or name: getattr(value, name)
            for name, field in type(value).model_fields.items()
        }
    fields = msgspec.structs.fields(value)
    return {field.encode_name: getattr(value, field.name) for field in fields}


def _is_operational_name(name: str) -> bool:
    return is_secret_name(name) or _OPERATIONAL_NAME.fullmatch(_plain(name)) is not None


def _is_url(value: object) -> bool:
    return isinstance(value, str) and _URL.fullmatch(value) is not None


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
