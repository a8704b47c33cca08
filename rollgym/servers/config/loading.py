"""The configuration of a command, read once: options, and the servers of a run.

Every check adds the problems that it finds, and all of them are reported together.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from rollgym.servers.config.descriptions import (
    check_external,
    check_references,
    described_servers,
    locate_instances,
    read_instances,
)
from rollgym.servers.config.documents import Resolver, variables_of
from rollgym.servers.config.instances import Address, ServerInstance, check_hosts, check_ports
from rollgym.servers.config.layers import CONFIG_PATHS, EXAMPLE, merge_layers
from rollgym.servers.config.problems import COMMAND_LINE, Problems, Settings, listed
from rollgym.suggestions import suggestion

HEAD_SERVER = "head_server"
SERVER_TOKEN = "server_token"  # noqa: S105 - the name of an option


class RunOptions(msgspec.Struct, frozen=True):
    """The keys at the top of a configuration that do not describe servers, resolved.

    `given` names those of the command line, `used` those that interpolations refer to. Servers
    beyond loopback require the `token`, and their clients send it.
    """

    values: Settings
    head: Address
    token: str | None
    given: frozenset[str]
    used: frozenset[str]


class RunConfig(msgspec.Struct, frozen=True):
    """The servers of a run, to be started and `external`, and the options."""

    instances: tuple[ServerInstance, ...]
    external: tuple[ServerInstance, ...]
    options: RunOptions
    cwd: Path

    def instance(self, name: str) -> ServerInstance:
        """Raises KeyError for an unknown name."""
        for instance in self.instances:
            if instance.name == name:
                return instance
        raise KeyError(name)


class Configuration:
    """The config files, `env.yaml` and the command line of a command, read once.

    A command reads its options first, then the servers where it starts them.
    """

    def __init__(
        self, arguments: Sequence[str], cwd: Path, *, known: Collection[str] | None = None
    ) -> None:
        """`known` are the option names that the command line may give.

        Names of servers and names that interpolations refer to are always allowed. With None, the
        caller checks the names. Raises ConfigError for arguments that are not overrides.
        """
        self._cwd = cwd.resolve()
        self._problems = Problems()
        self._layers = merge_layers(arguments, self._cwd, self._problems)
        self._described = described_servers(self._layers)
        self._options = self._read_options()
        self._check_names(known)

    def options(self) -> RunOptions:
        """The options. Raises ConfigError."""
        self._problems.raise_if_any()
        return self._options

    def servers(self, *, listening: bool = True) -> RunConfig:
        """The servers, with everything checked that can be before one starts. Raises ConfigError.

        With `listening` false, the servers of this process get no ports and there is no head, as in
        a collection that starts the servers in its own process.
        """
        layers, problems = self._layers, Problems()
        problems.extend(self._problems)
        if not self._described:
            self._report_no_servers(problems)
        described = read_instances(layers, self._cwd, problems)
        check_references(described, self._described, layers, problems)
        external = check_external(described, layers.locations, problems)
        instances = locate_instances(described, layers.roots, layers.locations, problems)
        if listening:
            head_source = layers.locations.of((HEAD_SERVER, "port"))
            listening_at = self._options.head
            own = instances
        else:
            head_source, listening_at = layers.locations.of(()), None
            own = [instance for instance in instances if instance.has_own_process]
        check_ports(own, listening_at, head_source, problems)
        if self._options.token is None:
            check_hosts(own, listening_at, head_source, problems)
        problems.raise_if_any()
        return RunConfig(tuple(instances), tuple(external), self._options, self._cwd)

    def _read_options(self) -> RunOptions:
        """An option of the command line must be valid; `env.yaml` may hold keys of other tools."""
        layers = self._layers
        values: Settings = {}
        for name in layers.plain.keys() - self._described:
            found = Problems()
            value = Resolver(layers.locations, found, self._cwd).value(layers.content, name)
            if not found:
                values[name] = value
            elif name in layers.given:
                self._problems.extend(found)
        given = layers.given - frozenset(self._described)
        used = variables_of(layers.content)
        return RunOptions(values, self._head(values), self._token(values), given, used)

    def _token(self, values: Settings) -> str | None:
        match values.get(SERVER_TOKEN):
            case None | "":
                return None
            case str() as token if token.isascii() and token.isprintable() and " " not in token:
                return token
        self._problems.add(
            self._layers.locations.of((SERVER_TOKEN,)),
            f"{SERVER_TOKEN} is not a text of visible ASCII characters",
            "make one with `openssl rand -hex 24`, and quote it",
        )
        return None

    def _head(self, values: Settings) -> Address:
        try:
            return msgspec.convert(values.get(HEAD_SERVER) or {}, Address)
        except msgspec.ValidationError as error:
            self._problems.add(
                self._layers.locations.of((HEAD_SERVER,)),
                f"{HEAD_SERVER}: {error}",
                "give +head_server.host=127.0.0.1 and +head_server.port=11000, or neither",
                is_misuse=HEAD_SERVER in self._layers.given,
            )
            return Address()

    def _check_names(self, known: Collection[str] | None) -> None:
        if known is None:
            return
        options, expected = self._options, {CONFIG_PATHS, HEAD_SERVER, SERVER_TOKEN, *known}
        for name in sorted(options.given - options.used - expected):
            self._problems.add(
                f"{COMMAND_LINE} (+{name}=…)",
                f"unknown option {name!r}{suggestion(name, expected | options.used)}",
                f"known options: {listed(expected)}",
                is_misuse=True,
            )

    def _report_no_servers(self, problems: Problems) -> None:
        if CONFIG_PATHS not in self._layers.plain:
            problems.add(COMMAND_LINE, "no config file is named", f"pass {EXAMPLE}", is_misuse=True)
        elif self._layers.files:
            problems.add(
                listed(self._layers.files),
                "describes no server",
                "a server is `name: {kind: {implementation: {entrypoint: app.py}}}` with one of "
                "the kinds resources_servers, responses_api_agents, responses_api_models",
            )


def load_config(
    arguments: Sequence[str],
    cwd: Path,
    *,
    listening: bool = True,
    known: Collection[str] | None = None,
) -> RunConfig:
    """`Configuration(…).servers(…)`, for a command whose options need no separate check."""
    return Configuration(arguments, cwd, known=known).servers(listening=listening)
