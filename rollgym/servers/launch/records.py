"""Messages between the launcher, the processes of servers and the head; errors of the launcher.

A launcher and a server's process exchange lines of JSON. The process gets one `StartRequest`
through its standard input, then a `Moved` when another server has a new address. The end of its
input means that the launcher has ended. It sends one `StartResult` through its standard output.
Credentials travel this way and never on the command line or in the environment, where other
processes could read them.

The head lists one `InstanceRecord` for each server, for collections and `ng_status`.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from rollgym.servers.config.instances import Address, ServerInstance
from rollgym.servers.server import Server, ServerKind
from rollgym.store import RefusedError
from rollgym.store.settings import SettingsIdentity, hide_secrets, settings_identity

TAIL_LINES = 10


class StartError(RefusedError):
    """A server did not start, and all servers that had started were stopped."""


class NoHeadError(RefusedError):
    """There is no `ng_run` at the address of the head."""


class ServerLostError(Exception):
    """A server's process died more often than it may be restarted."""


def with_tail(message: str, tail: list[str]) -> str:
    """The message, followed by the last lines that a process wrote."""
    if not tail:
        return f"{message}; it wrote nothing"
    shown = "\n".join(f"    {line}" for line in tail[-TAIL_LINES:])
    return f"{message}. The last lines it wrote:\n{shown}"


class StartRequest(msgspec.Struct, frozen=True):
    """Which server to run, at which address, and the URLs of the other servers.

    `replica` is its number among those of the server. `tokens` are those of all servers by name:
    the server's own is required of its clients.
    """

    instance: ServerInstance
    replica: int
    address: Address
    urls: dict[str, list[str]]
    tokens: dict[str, str]
    launcher: int
    log_level: str

    def to_line(self) -> bytes:
        return msgspec.json.encode(self, enc_hook=str) + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "StartRequest":
        return msgspec.json.decode(line, type=cls, dec_hook=_to_path)


def _to_path(_: type, value: object) -> Path:
    return Path(str(value))


class Moved(msgspec.Struct, frozen=True):
    """The URLs of servers of which a process has another address now, from the launcher."""

    urls: Mapping[str, Sequence[str]]

    def to_line(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "Moved":
        return msgspec.json.decode(line, type=cls)


class StartResult(msgspec.Struct, frozen=True):
    """The server is ready, or `error` says why not. `config` and `identity` are for its record."""

    error: str | None = None
    config: dict[str, Any] = {}
    identity: SettingsIdentity | None = None

    @classmethod
    def of(cls, server: Server, settings: Mapping[str, Any]) -> "StartResult":
        """The result for a server that is ready."""
        declared = server.config_type()
        return cls(
            config=hide_secrets(settings, declared), identity=settings_identity(settings, declared)
        )

    def to_line(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


class ServerStatus(StrEnum):
    """The state of a server, or of the worst of its processes: the worst states come first."""

    FAILED = "failed"
    RESTARTING = "restarting"
    STARTING = "starting"
    STOPPED = "stopped"
    READY = "ready"
    EXTERNAL = "external"


class ReplicaRecord(msgspec.Struct, frozen=True):
    """One process or address of a server in the listing of the head.

    `node` is its machine in a cluster. There, a process that was lost may come back with another
    URL.
    """

    url: str
    pid: int | None
    status: ServerStatus
    restarts: int = 0
    node: str = ""


class InstanceRecord(msgspec.Struct, frozen=True):
    """One server in the listing of the head.

    Of several processes, `urls` and `pids` have one each; `url` and `pid` are the first. `config`
    are the settings without secrets. `identity` is the part of them that belongs to the identity of
    a run; None where the class that declares them is unknown. `process_name` is the name once more,
    for NeMo Gym's `ng_status`. `replicas` has one entry for each URL, and one for a server without.
    """

    name: str
    process_name: str
    server_type: ServerKind
    implementation: str
    host: str
    port: int
    url: str
    urls: list[str]
    pid: int | None
    pids: list[int]
    status: ServerStatus
    restarts: int
    config: dict[str, Any]
    config_path: str
    replicas: list[ReplicaRecord] = []
    identity: SettingsIdentity | None = None
