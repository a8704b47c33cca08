"""The command line: Hydra's override syntax, read by Hydra's own parser.

`+key=value`, `++key=value` and `key=value` all set a value and replace the value of a file: no
schema distinguishes adding from changing. `~key` removes a key of a file. Sweeps and config groups,
which belong to Hydra's launcher, are rejected.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rollgym.servers.config.documents import Resolver
from rollgym.servers.config.problems import (
    COMMAND_LINE,
    ConfigError,
    JsonValue,
    KeyPath,
    Location,
    Locations,
    Problem,
    Problems,
    Settings,
    key_path,
)
from rollgym.store.settings import HIDDEN, hide_secrets_in_text, is_secret_name

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override as ParsedOverride

S = TypeVar("S", bound=msgspec.Struct)
LONGEST_SHOWN = 200
EXPECTED = (
    "write +key=value, without spaces around it; quote a value with special characters (= ~ , : "
    "brackets) twice: \"+key='a=b'\""
)


class Override(msgspec.Struct, frozen=True):
    """One argument. `shown` is its text without credentials."""

    shown: str
    key: str
    value: JsonValue
    removes: bool

    @property
    def path(self) -> KeyPath:
        return key_path(self.key)


def parse_overrides(arguments: Sequence[str]) -> Settings:
    """The settings of the command line alone, as nested mappings; `null` is None.

    Interpolations may use other overrides and environment variables. Raises ConfigError.
    """
    content, locations, problems = OmegaConf.create({}), Locations(), Problems()
    for override in read_overrides(arguments):
        if not override.removes or _holds(content, override.path):
            apply_override(override, content, locations, problems)
    options = Resolver(locations, problems).mapping(content, ())
    problems.raise_if_any()
    return options


def read_overrides(arguments: Sequence[str]) -> list[Override]:
    """Read the arguments. Raises ConfigError that names every argument that is not an override.

    Arguments of white space are ignored: a shell passes one for a backslash before a comment.
    """
    problems, overrides = Problems(), []
    for argument in arguments:
        if argument.strip():
            try:
                overrides.append(_read(argument))
            except ConfigError as error:
                problems.extend(error.problems)
    problems.raise_if_any()
    return overrides


def read_options(given: Mapping[str, JsonValue], options: type[S], command: str) -> S:
    """The options of a command from their values. Raises ConfigError for a wrong one."""
    try:
        return msgspec.convert(given, options)
    except msgspec.ValidationError as error:
        raise misuse(f"an option is wrong: {error}", f"see `{command} --help`") from error


def misuse(what: str, fix: str, *, shown: str = "") -> ConfigError:
    """The error of a wrong command line; `shown` is the argument that is wrong."""
    where = f"{COMMAND_LINE} ({shown})" if shown else COMMAND_LINE
    return ConfigError([Problem(where, what, fix, is_misuse=True)])


def apply_override(
    override: Override, content: DictConfig, locations: Locations, problems: Problems
) -> None:
    """Apply the override to `content`."""
    if override.removes:
        if not _remove(content, override.path):
            problems.add(
                _place(override),
                f"there is no {override.key!r} to remove",
                "check the name or omit the argument",
                is_misuse=True,
            )
        return
    try:
        OmegaConf.update(content, override.key, override.value, merge=True, force_add=True)
    except OmegaConfBaseException as error:
        reason = hide_secrets_in_text(str(error).partition("\n")[0])
        what, fix = f"cannot be applied ({reason})", "check its key and value"
        problems.add(_place(override), what, fix, is_misuse=True)
        return
    locations.add_value(override.path, Location(COMMAND_LINE))


def _read(argument: str) -> Override:
    shown = _shown(argument)
    parsed = _parsed(argument)
    if parsed is None:
        raise misuse("this is not an override", EXPECTED, shown=shown)
    if parsed.is_sweep_override():
        raise misuse("sweeps are not supported", _list_advice(shown), shown=shown)
    if parsed.package is not None or "/" in parsed.key_or_group:
        what = "config groups and packages are not supported"
        raise misuse(what, "write +section.key=value", shown=shown)
    if not key_path(parsed.key_or_group):
        raise misuse("it has no key", EXPECTED, shown=shown)
    return Override(shown, parsed.key_or_group, _value(parsed), parsed.is_delete())


def _parsed(argument: str) -> "ParsedOverride | None":
    """The override as Hydra reads it; None where it is not one."""
    # Worker processes read none, and Hydra is a quarter of what they would import.
    from hydra.core.override_parser.overrides_parser import OverridesParser  # noqa: PLC0415
    from hydra.errors import HydraException  # noqa: PLC0415

    try:
        return OverridesParser.create().parse_overrides([argument])[0]
    except (HydraException, RecursionError):
        return None


def _value(parsed: "ParsedOverride") -> JsonValue:
    """Hydra gives plain values, lists and mappings for everything except sweeps."""
    value: JsonValue = parsed.value()  # type: ignore[assignment]
    return value


def _list_advice(shown: str) -> str:
    key, _, value = shown.partition("=")
    return f'give one value, or a list in brackets: "{key}=[{value}]"'


def _shown(argument: str) -> str:
    key, equals, _ = argument.partition("=")
    names = key_path(key.lstrip("+~"))
    if equals and any(is_secret_name(name) for name in names):
        return f"{key}={HIDDEN}"
    return hide_secrets_in_text(argument)[:LONGEST_SHOWN]


def _place(override: Override) -> str:
    return f"{COMMAND_LINE} ({override.shown})"


def _holds(content: DictConfig, path: KeyPath) -> bool:
    node: object = OmegaConf.to_container(content, resolve=False)
    for name in path:
        if not isinstance(node, dict) or name not in node:
            return False
        node = node[name]
    return True


def _remove(content: DictConfig, path: KeyPath) -> bool:
    if not _holds(content, path):
        return False
    node = content
    for name in path[:-1]:
        node = node[name]
    del node[path[-1]]
    return True
