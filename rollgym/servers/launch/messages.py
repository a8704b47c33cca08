"""What a launcher and the process of a server say to each other, a line of JSON each.

Through the process's standard input comes one `Order`, and then nothing: the end of it means that
the launcher is gone. Through its standard output goes one `Report`. Credentials travel this way and
never through the command line or the environment, where others could read them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rollgym.servers.config import Address, InstanceConfig, Source
from rollgym.servers.server import Server, ServerKind
from rollgym.store.settings import SettingsIdentity, hide_secrets, settings_identity


class Order(msgspec.Struct, frozen=True):
    """Which server to run, where, and where the others are."""

    name: str
    kind: ServerKind
    implementation: str
    folder: str
    entrypoint: str
    settings: dict[str, Any]
    source: Source
    places: dict[str, Source]
    address: Address
    urls: dict[str, list[str]]
    launcher: int
    log_level: str

    @property
    def instance(self) -> InstanceConfig:
        return InstanceConfig(
            name=self.name,
            kind=self.kind,
            implementation=self.implementation,
            folder=Path(self.folder),
            entrypoint=Path(self.entrypoint),
            settings=self.settings,
            source=self.source,
            places=self.places,
            isolated=True,
        )


class Report(msgspec.Struct, frozen=True):
    """The server is ready, or why it is not. `config` and `identity` are those of its record."""

    trouble: str | None = None
    config: dict[str, Any] = {}
    identity: SettingsIdentity | None = None

    @classmethod
    def of(cls, server: Server, settings: Mapping[str, Any]) -> "Report":
        """The report of a server that is ready."""
        declared = server.config_type()
        return cls(
            config=hide_secrets(settings, declared), identity=settings_identity(settings, declared)
        )


def order_for(
    instance: InstanceConfig,
    address: Address,
    urls: dict[str, list[str]],
    launcher: int,
    log_level: str,
) -> Order:
    return Order(
        name=instance.name,
        kind=instance.kind,
        implementation=instance.implementation,
        folder=str(instance.folder),
        entrypoint=str(instance.entrypoint),
        settings=dict(instance.settings),
        source=instance.source,
        places=instance.places,
        address=address,
        urls=urls,
        launcher=launcher,
        log_level=log_level,
    )


def line_of(message: msgspec.Struct) -> bytes:
    return msgspec.json.encode(message) + b"\n"
