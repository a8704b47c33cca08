"""From command-line overrides and YAML files to the checked servers of a run."""

from rollgym.servers.config.instances import Address, ServerInstance, listening_socket
from rollgym.servers.config.layers import described_agents
from rollgym.servers.config.loading import Configuration, RunConfig, RunOptions, load_config
from rollgym.servers.config.overrides import parse_overrides
from rollgym.servers.config.plugins import (
    implementations,
    known_configs,
    load_server_class,
    load_settings,
    plugin_roots,
)
from rollgym.servers.config.problems import ConfigError, Problem, Problems, Settings, suggestion

__all__ = [
    "Address",
    "ConfigError",
    "Configuration",
    "Problem",
    "Problems",
    "RunConfig",
    "RunOptions",
    "ServerInstance",
    "Settings",
    "described_agents",
    "implementations",
    "known_configs",
    "listening_socket",
    "load_config",
    "load_server_class",
    "load_settings",
    "parse_overrides",
    "plugin_roots",
    "suggestion",
]
