"""From command-line overrides and YAML files to a checked description of the servers of a run."""

from rollgym.servers.config.external import ExternalServer
from rollgym.servers.config.instances import InstanceConfig
from rollgym.servers.config.loading import RunConfig, RunOptions, load_config, load_options
from rollgym.servers.config.overrides import parse_overrides
from rollgym.servers.config.plugins import load_server_class, load_settings
from rollgym.servers.config.ports import Address, is_loopback, listening_socket
from rollgym.servers.config.problems import ConfigError, Problem, Problems, suggestion
from rollgym.servers.config.roots import plugin_roots
from rollgym.servers.config.sources import JsonValue, Settings, Source

__all__ = [
    "Address",
    "ConfigError",
    "ExternalServer",
    "InstanceConfig",
    "JsonValue",
    "Problem",
    "Problems",
    "RunConfig",
    "RunOptions",
    "Settings",
    "Source",
    "is_loopback",
    "listening_socket",
    "load_config",
    "load_options",
    "load_server_class",
    "load_settings",
    "parse_overrides",
    "plugin_roots",
    "suggestion",
]
