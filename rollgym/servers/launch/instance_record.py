"""What the head says of each server, and what a collection or `ng_status` reads there."""

from enum import StrEnum
from typing import Any

import msgspec

from rollgym.servers.server import ServerKind


class Status(StrEnum):
    """Where a server is in its life."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPED = "stopped"


class InstanceRecord(msgspec.Struct, frozen=True):
    """One server. Of several processes, `urls` and `pids` have one each; `url` is the first."""

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
