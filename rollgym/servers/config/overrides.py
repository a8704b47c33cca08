"""The command line: Hydra's override syntax, read by Hydra's own parser.

`+key=value`, `++key=value` and `key=value` all set a value, over whatever the files say: there is
no schema that could tell adding from changing. `~key` takes a key out that a file put in. What
Hydra means for its own machinery, sweeps and config groups, is refused.
"""

from collections.abc import Sequence

import msgspec
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override as ParsedOverride
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rollgym.servers.config.problems import ConfigError, Problem, Problems
from rollgym.servers.config.resolving import Resolver
from rollgym.servers.config.sources import (
    COMMAND_LINE,
    JsonValue,
    KeyPath,
    Settings,
    Source,
    Sources,
    key_path,
)
from rollgym.store.settings import HIDDEN, hide_secrets_in_text, is_secret_name

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
    """What the command line alone says, as nested mappings; `null` is None.

    Interpolations may name other overrides and environment variables. Raises ConfigError.
    """
    content, sources, problems = OmegaConf.create({}), Sources(), Problems()
    for override in read_overrides(arguments):
        if not override.removes or _holds(content, override.path):
            apply_override(override, content, sources, problems)
    options = Resolver(sources, problems).mapping(content, ())
    problems.refuse()
    return options


def read_overrides(arguments: Sequence[str]) -> list[Override]:
    """Raises ConfigError that names every argument that is no override.

    An argument of white space only is none: it is what a shell makes of a backslash that a comment
    follows.
    """
    parser, problems, overrides = OverridesParser.create(), Problems(), []
    for argument in arguments:
        if argument.strip():
            try:
                overrides.append(_read(parser, argument))
            except ConfigError as error:
                problems.take(error.problems)
    problems.refuse()
    return overrides


def apply_override(
    override: Override, content: DictConfig, sources: Sources, problems: Problems
) -> None:
    """Change `content` as the override says."""
    if override.removes:
        if not _remove(content, override.path):
            problems.add(
                _place(override),
                f"there is no {override.key!r} to take out",
                "check the name or leave the argument away",
            )
        return
    try:
        OmegaConf.update(content, override.key, override.value, merge=True, force_add=True)
    except OmegaConfBaseException as error:
        reason = hide_secrets_in_text(str(error).partition("\n")[0])
        problems.add(_place(override), f"cannot be applied ({reason})", "check its key and value")
        return
    sources.give(override.path, Source(COMMAND_LINE))


def _read(parser: OverridesParser, argument: str) -> Override:
    shown = _shown(argument)
    try:
        parsed = parser.parse_overrides([argument])[0]
    except HydraException as error:
        raise _refused(shown, "this is no override", EXPECTED) from error
    if parsed.is_sweep_override():
        raise _refused(shown, "sweeps are not supported", _list_advice(shown))
    if parsed.package is not None or "/" in parsed.key_or_group:
        raise _refused(
            shown, "config groups and packages are not supported", "write +section.key=value"
        )
    if not key_path(parsed.key_or_group):
        raise _refused(shown, "it has no key", EXPECTED)
    return Override(shown, parsed.key_or_group, _value(parsed), parsed.is_delete())


def _value(parsed: ParsedOverride) -> JsonValue:
    """Hydra gives plain values, lists and mappings for everything that is no sweep."""
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
    return hide_secrets_in_text(argument)


def _place(override: Override) -> str:
    return f"{COMMAND_LINE} ({override.shown})"


def _refused(shown: str, what: str, fix: str) -> ConfigError:
    return ConfigError([Problem(f"{COMMAND_LINE} ({shown})", what, fix)])


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
