"""The options of a command: read into its settings, and described in its help."""

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from pydantic import (
    ValidationError,
)
from pydantic.fields import FieldInfo

from rollgym.cli.process import EXIT_STATUSES
from rollgym.cli.rollout_settings import FlagName, RolloutSettings, SettingsError
from rollgym.servers.config.loading import RunOptions
from rollgym.suggestions import nearest

T = TypeVar("T", bound=RolloutSettings)


def flag_names(name: str, field: FieldInfo) -> tuple[str, ...]:
    """The flag of a setting, and its short form if it has one."""
    for mark in field.metadata:
        if isinstance(mark, FlagName):
            return (mark.name,) if mark.short is None else (mark.name, mark.short)
    return (f"--{name.replace('_', '-')}",)


def is_switch(field: FieldInfo) -> bool:
    """Whether a setting is true or false, so that its flag takes no value."""
    return field.annotation in (bool, bool | None)


def negated(flag: str) -> str:
    """The flag that sets a switch to false."""
    return flag.replace("--", "--no-", 1)


class OptionNames(NamedTuple):
    """How messages name the settings: as flags where the command was written with flags."""

    flags: Mapping[str, str] = MappingProxyType({})

    def of(self, name: str) -> str:
        return self.flags.get(name, f"+{name}")


AS_OVERRIDES = OptionNames()


def read_settings(
    model: type[T], options: RunOptions, example: str, names: OptionNames = AS_OVERRIDES
) -> T:
    """Raises SettingsError with every problem; `example` is a correct command."""
    known = model.model_fields
    values = {name: value for name, value in options.values.items() if name in known}
    # Settings of servers, and variables of config files, are not options of the command.
    unknown = (options.given & options.values.keys()) - known.keys() - options.used
    problems = [_unknown(name, known, names) for name in sorted(unknown)]
    try:
        settings = model.model_validate(values)
    except ValidationError as error:
        problems += _problems(error, values, known, example, names)
    if problems:
        raise SettingsError("\n".join(["the command cannot be run:", *problems]))
    return settings


def rollout_help(
    usage: str, model: type[RolloutSettings], example: str, further: Sequence[str] = ()
) -> str:
    """The text of `--help`: the usage, every option with its default, and `further` lines.

    The options that only this command has come first.
    """
    inherited = RolloutSettings.model_fields
    fields = sorted(model.model_fields.items(), key=lambda item: item[0] in inherited)
    required = [_option(name, field) for name, field in fields if field.is_required()]
    others = [_option(name, field) for name, field in fields if not field.is_required()]
    return "\n".join(
        [
            *(usage.strip(), "", "required:", *required, "", "options:", *others, *further),
            *("", "example:", f"  {example}", "", EXIT_STATUSES),
        ]
    )


def _option(name: str, field: FieldInfo) -> str:
    default = "" if field.is_required() else f" (default: {json.dumps(field.default)})"
    flags = ", ".join(flag_names(name, field))
    if is_switch(field):
        flags = f"{flags}, {negated(flags)}"
    return f"  {flags}, +{name}=…{default}\n      {field.description}"


def _unknown(name: str, known: Mapping[str, Any], names: OptionNames) -> str:
    if name in names.flags:
        return (
            f"  {names.of(name)} sets {name}, which no config file here uses: name one that uses "
            f"${{{name}}}, such as a model's"
        )
    close = nearest(name, known)
    meant = f"did you mean +{close}?" if close else "`--help` lists the options"
    return f"  +{name}: there is no such option; {meant}"


def _problems(
    error: ValidationError,
    values: Mapping[str, Any],
    known: Mapping[str, FieldInfo],
    example: str,
    names: OptionNames,
) -> Iterator[str]:
    """One problem for each option."""
    by_option: dict[str, list[Any]] = {}
    for each in error.errors(include_url=False):
        by_option.setdefault(str(each["loc"][0]) if each["loc"] else "", []).append(each)
    for name, found in by_option.items():
        message = str(found[0]["msg"]).removeprefix("Value error, ")
        if not name:
            yield f"  {message}"
        elif values.get(name) is None:
            yield f"  {names.of(name)} is missing, as in: {example}"
        elif len(found) > 1 or len(found[0]["loc"]) > 1:
            yield f"  {names.of(name)}: {known[name].description}; not {values[name]!r}"
        elif isinstance(values[name], str) and repr(values[name]) in message:
            yield f"  {names.of(name)}: {message}"
        else:
            yield f"  {names.of(name)}: {message}, not {values[name]!r}"
