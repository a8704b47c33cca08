"""Config files that a command does not name, because its flags tell which ones are meant.

With a flag about the model, `--model-url` for example, the command runs the servers itself. It
finds the config file that describes its agent among the plug-ins, and adds one for the model. An
agent may be called by its implementation, `simple_agent`, if the input belongs to an environment.

With `--command` or `--agent-url`, the agent is one that other people wrote (`command_agent`), and
the config file is that of the environment.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

from rollgym.cli.flags import (
    AGENT_URL,
    API_KEY,
    COMMAND,
    MODEL_TYPE,
    RESOURCES_SERVER,
    FlagArguments,
    quoted,
    read_flags,
)
from rollgym.cli.options import OptionNames, read_settings
from rollgym.cli.rollout_settings import RolloutSettings, SettingsError
from rollgym.servers.config.layers import described_in
from rollgym.servers.config.loading import Configuration, RunConfig
from rollgym.servers.config.plugins import implementations, known_configs, plugin_roots
from rollgym.servers.config.problems import Settings
from rollgym.servers.server import ServerKind
from rollgym.suggestions import suggestion

T = TypeVar("T", bound=RolloutSettings)
BASE_URL = "policy_base_url"
MODEL_NAME = "policy_model_name"
_CONFIG_PATHS = "config_paths"
_OPENAI = "api.openai.com"
_AGENT = "command_agent"
_AGENT_CONFIG = f"{ServerKind.AGENT}/{_AGENT}/configs/{_AGENT}.yaml"


class _FoundServer(NamedTuple):
    name: str
    implementation: str
    config: str


def read_command(
    model: type[T], arguments: Sequence[str], example: str, flag_example: str | None = None
) -> tuple[T, Configuration, OptionNames]:
    """The settings of a command, its configuration, and how messages name its options.

    `flag_example` is a correct command with flags. Raises ConfigError, SettingsError.
    """
    flags = read_flags(model, arguments)
    names, configuration = flags.names(model), _find_configuration(flags, Path.cwd())
    shown = flag_example if flag_example and flags.used else example
    return read_settings(model, configuration.options(), shown, names), configuration, names


def _find_configuration(arguments: FlagArguments, cwd: Path) -> Configuration:
    """The configuration of a command, with the files that its flags imply.

    Raises ConfigError, SettingsError.
    """
    configuration = Configuration(arguments.overrides, cwd)
    if not arguments.names_servers:
        return configuration
    options = configuration.options()
    overrides = list(arguments.overrides)
    named = options.values.get(_CONFIG_PATHS) or []
    files = [str(each) for each in (named if isinstance(named, list) else [named])]
    if arguments.agent:
        files, added = _with_foreign_agent(arguments.agent, files, options.values, cwd)
        overrides += added
    elif not files:
        agent = _find_agent(options.values, cwd)
        files.append(agent.config)
        overrides.append(f"+agent_name={quoted(agent.name)}")
    has_model = not arguments.names_model and any(_described_models(files, cwd))
    if arguments.model_type or not (BASE_URL in options.used or has_model):
        files.append(_model_config(arguments.model_type, options.values, cwd))
    overrides.append(f"+{_CONFIG_PATHS}=[{','.join(map(quoted, files))}]")
    print(f"Config files: {', '.join(files)}", file=sys.stderr)
    configuration = Configuration(overrides, cwd)
    options = configuration.options()
    if API_KEY in options.used and API_KEY not in options.values:
        return Configuration([*overrides, f"+{API_KEY}=EMPTY"], cwd)
    return configuration


def model_configuration(
    files: Sequence[str],
    *,
    url: str | None,
    name: str | None,
    key_variable: str | None,
    implementation: str | None,
    cwd: Path,
    further: Sequence[str] = (),
) -> tuple[RunConfig, str]:
    """The configuration of a model server alone, and its name. Raises ConfigError, SettingsError.

    It is the one of the config files, or one for this URL. `further` are overrides of its settings.
    """
    values: Settings = {BASE_URL: url} if url else {}
    if not files:
        if not (url and name):
            raise SettingsError("name the model with --model-url and --model, or with --config")
        files = [_model_config(implementation, values, cwd)]
    overrides = [f"+{_CONFIG_PATHS}=[{','.join(map(quoted, files))}]"]
    given = {BASE_URL: url, MODEL_NAME: name}
    overrides += [f"+{option}={quoted(value)}" for option, value in given.items() if value]
    overrides += further
    if key_variable is not None and key_variable not in os.environ:
        raise SettingsError(f"--api-key-env: the environment has no variable {key_variable}")
    if key_variable is not None:
        overrides.append(f"+{API_KEY}=${{oc.env:{key_variable}}}")
    elif API_KEY not in Configuration(overrides, cwd).options().values:
        overrides.append(f"+{API_KEY}=EMPTY")
    known = (BASE_URL, MODEL_NAME, API_KEY)
    config = Configuration(overrides, cwd, known=known).servers(listening=False)
    models = [each.name for each in config.instances if each.kind is ServerKind.MODEL]
    models += [each.name for each in config.external if each.kind is ServerKind.MODEL]
    if len(models) != 1:
        listed = ", ".join(models) or "none"
        raise SettingsError(f"the gateway needs one model server; the config files have {listed}")
    return config, models[0]


def _with_foreign_agent(
    flags: Mapping[str, str], files: Sequence[str], values: Settings, cwd: Path
) -> tuple[list[str], list[str]]:
    """The config files of an agent that other people wrote and its environment, and overrides."""
    if (COMMAND in flags) == (AGENT_URL in flags):
        raise SettingsError(f"give {COMMAND} or {AGENT_URL}, one of the two")
    environment = _find_environment(flags.get(RESOURCES_SERVER), files, values, cwd)
    settings = f"+{_AGENT}.{ServerKind.AGENT}.{_AGENT}"
    name, value = (
        ("command", flags[COMMAND]) if COMMAND in flags else ("service_url", flags[AGENT_URL])
    )
    overrides = [
        f"+agent_name={_AGENT}",
        f"{settings}.{name}={quoted(value)}",
        f"{settings}.resources_server.name={quoted(environment.name)}",
    ]
    return [*dict.fromkeys((*files, environment.config, _AGENT_CONFIG))], overrides


def _find_environment(
    wanted: str | None, files: Sequence[str], values: Settings, cwd: Path
) -> _FoundServer:
    environments = list(_servers(ServerKind.RESOURCES, cwd, files))
    folder = _environment_of(str(values.get("input_jsonl_fpath") or ""))
    for found in (
        [each for each in environments if wanted == each.name],
        [each for each in environments if wanted == each.implementation],
        [each for each in environments if wanted is None and each.config in files],
        [each for each in environments if wanted is None and folder == each.implementation],
    ):
        if len({each.name for each in found}) > 1:
            listed = ", ".join(each.name for each in found)
            raise SettingsError(f"give {RESOURCES_SERVER} with one of {listed}")
        if found:
            return found[0]
    names = sorted({each.implementation for each in environments})
    if wanted is not None:
        raise SettingsError(
            f"{RESOURCES_SERVER}: no config file describes an environment {wanted!r}"
            f"{suggestion(wanted, names)}; name its config file with --config"
        )
    raise SettingsError(
        f"name the environment that scores the agent with {RESOURCES_SERVER}: {', '.join(names)}"
    )


def _find_agent(values: Settings, cwd: Path) -> _FoundServer:
    agents, wanted = list(_servers(ServerKind.AGENT, cwd)), values.get("agent_name")
    agents = [each for each in agents if each.implementation != _AGENT]
    folder = _environment_of(str(values.get("input_jsonl_fpath") or ""))
    beside = [each for each in agents if folder and folder in Path(each.config).parts]
    for found in (
        [each for each in agents if each.name == wanted and wanted != each.implementation],
        [each for each in beside if wanted in (None, each.implementation)],
        [each for each in agents if each.name == wanted],
    ):
        if len(found) > 1:
            configs = ", ".join(each.config for each in found)
            raise SettingsError(
                f"several config files are meant: give --config with one of {configs}"
            )
        if found:
            return found[0]
    names = [each.name for each in agents]
    if isinstance(wanted, str):
        raise SettingsError(
            f"--agent: no config file describes an agent {wanted!r}{suggestion(wanted, names)}; "
            "name its config file with --config"
        )
    raise SettingsError(
        "the flags name a model, so this command runs the servers itself: name the agent with "
        f"--agent ({', '.join(names)}), or config files with --config"
    )


def _described_models(files: Sequence[str], cwd: Path) -> Iterator[str]:
    roots = plugin_roots(cwd)
    for config in files:
        yield from (name for name, _ in described_in(config, roots, ServerKind.MODEL))


def _servers(kind: ServerKind, cwd: Path, files: Sequence[str] = ()) -> Iterator[_FoundServer]:
    """Every server of a kind that these config files or those of the plug-ins describe."""
    roots = plugin_roots(cwd)
    for config in dict.fromkeys((*files, *known_configs(roots))):
        for name, implementation in described_in(config, roots, kind):
            yield _FoundServer(name, implementation, config)


def _environment_of(path: str) -> str | None:
    """`mcqa` for `…/resources_servers/mcqa/data/example.jsonl`."""
    parts = Path(path).parts
    kind = str(ServerKind.RESOURCES)
    return parts[parts.index(kind) + 1] if kind in parts[:-1] else None


def _model_config(wanted: str | None, values: Settings, cwd: Path) -> str:
    if wanted is None:
        host = urlsplit(str(values.get(BASE_URL) or "")).hostname
        wanted = "openai_model" if host in (None, _OPENAI) else "vllm_model"
    known: Sequence[str] = sorted(implementations(ServerKind.MODEL, plugin_roots(cwd)))
    if wanted not in known:
        raise SettingsError(
            f"{MODEL_TYPE}: there is no model server {wanted!r}{suggestion(wanted, known)}; there "
            f"are {', '.join(known)}"
        )
    return f"{ServerKind.MODEL}/{wanted}/configs/{wanted}.yaml"
