"""From a command line to the checked description of a run.

The order of the steps does not matter to a reader of the messages: every step adds what it finds
wrong, and all of it is told together.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from rollgym.servers.config.drafts import described_servers, read_drafts
from rollgym.servers.config.external import ExternalServer, split_external
from rollgym.servers.config.instances import InstanceConfig, locate_instances
from rollgym.servers.config.layers import CONFIG_PATHS, EXAMPLE, Layers, merge_layers
from rollgym.servers.config.ports import Address, check_ports
from rollgym.servers.config.problems import Problems, listed, suggestion
from rollgym.servers.config.references import check_references
from rollgym.servers.config.resolving import Resolver, variables_of
from rollgym.servers.config.sources import COMMAND_LINE, Settings

HEAD_SERVER = "head_server"


class RunOptions(msgspec.Struct, frozen=True):
    """The keys at the top of a configuration that describe no server, resolved.

    `given` names those of the command line, `used` those that interpolations ask for.
    """

    values: Settings
    head: Address
    given: frozenset[str]
    used: frozenset[str]


class RunConfig(msgspec.Struct, frozen=True):
    """The servers of a run, and whatever else its configuration says."""

    instances: tuple[InstanceConfig, ...]
    external: tuple[ExternalServer, ...]
    options: RunOptions
    cwd: Path

    def instance(self, name: str) -> InstanceConfig:
        """Raises KeyError for a name that no server has."""
        for instance in self.instances:
            if instance.name == name:
                return instance
        raise KeyError(name)


class _HeadSettings(msgspec.Struct, forbid_unknown_fields=True):
    host: Annotated[str, msgspec.Meta(min_length=1)] = Address().host
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = Address().port


def load_options(
    arguments: Sequence[str], cwd: Path, *, known: Collection[str] | None = None
) -> RunOptions:
    """What a command that starts no servers needs to know. Raises ConfigError.

    `known` are the names that the command line may give besides servers and what interpolations
    ask for; None where the caller looks after that.
    """
    cwd, problems = cwd.resolve(), Problems()
    layers = merge_layers(arguments, cwd, problems)
    options = _options(layers, described_servers(layers), cwd, problems)
    _check_names(options, known, problems)
    problems.refuse()
    return options


def load_config(
    arguments: Sequence[str],
    cwd: Path,
    *,
    listening: bool = True,
    known: Collection[str] | None = None,
) -> RunConfig:
    """Read and check everything that can be checked before a server starts.

    `listening` is false where the servers of this process get no ports and there is no head, as in
    a collection that starts them itself. `known` is as in `load_options`. Raises ConfigError with
    every problem.
    """
    cwd, problems = cwd.resolve(), Problems()
    layers = merge_layers(arguments, cwd, problems)
    described, drafts = described_servers(layers), read_drafts(layers, cwd, problems)
    if not described:
        _say_there_is_none(layers, problems)
    check_references(drafts, described, layers.sources, problems)
    external, own_drafts = split_external(drafts, layers.sources, problems)
    instances = locate_instances(own_drafts, layers.roots, layers.sources, problems)
    options = _options(layers, described, cwd, problems)
    _check_names(options, known, problems)
    if listening:
        check_ports(instances, options.head, layers.sources.of((HEAD_SERVER, "port")), problems)
    else:
        own = [instance for instance in instances if instance.has_own_process]
        check_ports(own, None, layers.sources.of(()), problems)
    problems.refuse()
    return RunConfig(tuple(instances), tuple(external), options, cwd)


def _options(
    layers: Layers, described: Collection[str], cwd: Path, problems: Problems
) -> RunOptions:
    """Whoever gives an option on the command line means it; `env.yaml` may also hold others'."""
    values: Settings = {}
    for name in layers.plain.keys() - described:
        found = Problems()
        value = Resolver(layers.sources, found, cwd).value(layers.content, name)
        if not found:
            values[name] = value
        elif name in layers.given:
            problems.take(found)
    head = _head(values, layers, problems)
    given = layers.given - frozenset(described)
    return RunOptions(values, head, given, variables_of(layers.content))


def _check_names(options: RunOptions, known: Collection[str] | None, problems: Problems) -> None:
    if known is None:
        return
    expected = {CONFIG_PATHS, HEAD_SERVER, *known}
    for name in sorted(options.given - options.used - expected):
        problems.add(
            f"{COMMAND_LINE} (+{name}=…)",
            f"unknown option {name!r}{suggestion(name, expected | options.used)}",
            f"known options: {listed(expected)}",
        )


def _head(values: Settings, layers: Layers, problems: Problems) -> Address:
    try:
        settings = msgspec.convert(values.get(HEAD_SERVER) or {}, _HeadSettings)
    except msgspec.ValidationError as error:
        problems.add(
            layers.sources.of((HEAD_SERVER,)),
            f"{HEAD_SERVER}: {error}",
            "give +head_server.host=127.0.0.1 and +head_server.port=11000, or neither",
        )
        return Address()
    return Address(settings.host, settings.port)


def _say_there_is_none(layers: Layers, problems: Problems) -> None:
    if CONFIG_PATHS not in layers.plain:
        problems.add(COMMAND_LINE, "no config file is named", f"pass {EXAMPLE}")
    elif layers.files:
        problems.add(
            listed(layers.files),
            "describes no server",
            "a server is `name: {kind: {implementation: {entrypoint: app.py}}}` with one of the "
            "kinds resources_servers, responses_api_agents, responses_api_models",
        )
