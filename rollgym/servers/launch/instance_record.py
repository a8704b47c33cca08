"""What the head says of each server, and what a collection or `ng_status` reads there."""

from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

import msgspec

from rollgym.servers.config import ExternalServer
from rollgym.servers.server import ServerConfig, ServerKind
from rollgym.store.settings import SettingsIdentity, hide_secrets


class Status(StrEnum):
    """Where a server is in its life."""

    STARTING = "starting"
    READY = "ready"
    EXTERNAL = "external"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPED = "stopped"


class InstanceRecord(msgspec.Struct, frozen=True):
    """One server. Of several processes, `urls` and `pids` have one each; `url` is the first.

    `config` are its settings without secrets. `identity` is the part of them that belongs to the
    identity of a run; None where the class that declares them is not known.
    """

    name: str
    server_type: ServerKind
    implementation: str
    host: str
    port: int
    url: str
    urls: list[str]
    pid: int | None
    pids: list[int]
    status: Status
    restarts: int
    config: dict[str, Any]
    config_path: str
    identity: SettingsIdentity | None = None


def external_record(server: ExternalServer) -> InstanceRecord:
    """What is known of a server that somebody else runs."""
    address = urlsplit(server.urls[0])
    return InstanceRecord(
        name=server.name,
        server_type=server.kind,
        implementation=server.implementation,
        host=address.hostname or "",
        port=address.port or (443 if address.scheme == "https" else 80),
        url=server.urls[0],
        urls=server.urls,
        pid=None,
        pids=[],
        status=Status.EXTERNAL,
        restarts=0,
        config=hide_secrets(server.settings, ServerConfig),
        config_path=str(server.source),
    )
