"""Config files that a command does not name, because its flags tell which ones are meant.

With a flag about the model, `--model-url` for example, the command runs the servers itself. It
finds the config file that describes its agent among the plug-ins, and adds one for the model. An
agent may be called by its implementation, `simple_agent`, if the input belongs to an environment.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from rollgym.cli.flags import API_KEY, MODEL_TYPE, FlagArguments, quoted
from rollgym.cli.rollout_settings import SettingsError
from rollgym.servers.config.layers import described_agents
from rollgym.servers.config.loading import Configuration
from rollgym.servers.config.plugins import implementations, known_configs, plugin_roots
from rollgym.servers.config.problems import Settings, suggestion
from rollgym.servers.server import ServerKind

BASE_URL = "policy_base_url"
_CONFIG_PATHS = "config_paths"
_OPENAI = "api.openai.com"


class _FoundAgent(NamedTuple):
    name: str
    implementation: str
    config: str


def find_configuration(arguments: FlagArguments, cwd: Path) -> Configuration:
    """The configuration of a command, with the files that its flags imply.

    Raises ConfigError, SettingsError.
    """
    configuration = Configuration(arguments.overrides, cwd)
    if not arguments.names_model:
        return configuration
    options = configuration.options()
    overrides = list(arguments.overrides)
    named = options.values.get(_CONFIG_PATHS) or []
    files = [str(each) for each in (named if isinstance(named, list) else [named])]
    if not files:
        agent = _find_agent(options.values, cwd)
        files.append(agent.config)
        overrides.append(f"+agent_name={quoted(agent.name)}")
    if arguments.model_type or BASE_URL not in options.used:
        files.append(_model_config(arguments.model_type, options.values, cwd))
    overrides.append(f"+{_CONFIG_PATHS}=[{','.join(map(quoted, files))}]")
    print(f"Config files: {', '.join(files)}", file=sys.stderr)
    configuration = Configuration(overrides, cwd)
    options = configuration.options()
    if API_KEY in options.used and API_KEY not in options.values:
        return Configuration([*overrides, f"+{API_KEY}=EMPTY"], cwd)
    return configuration


def _find_agent(values: Settings, cwd: Path) -> _FoundAgent:
    agents, wanted = list(_agents(cwd)), values.get("agent_name")
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


def _agents(cwd: Path) -> Iterator[_FoundAgent]:
    """Every agent that a config file of the plug-ins describes."""
    roots, seen = plugin_roots(cwd), set[str]()
    for config in known_configs(roots):
        if config not in seen:
            seen.add(config)
            for name, implementation in described_agents(config, roots):
                yield _FoundAgent(name, implementation, config)


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
