"""The servers that a collection works with: who they are, and what of them can change results."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from rollgym.servers.server import ServerKind
from rollgym.store import SettingsIdentity


class ServerDescription(msgspec.Struct, frozen=True):
    """A server as its configuration describes it, without secrets."""

    name: str
    kind: ServerKind
    implementation: str
    settings: dict[str, Any]
    identity: SettingsIdentity
    own_metrics: bool | None = None
    """Whether an environment has aggregate metrics of its own; None where nobody here knows."""


class Roster:
    """All servers of a run, by name."""

    def __init__(self, servers: Iterable[ServerDescription]) -> None:
        self._servers = {server.name: server for server in servers}

    @property
    def agents(self) -> list[str]:
        return [each.name for each in self._servers.values() if each.kind is ServerKind.AGENT]

    def identity(self, agents: Iterable[str]) -> dict[str, Any]:
        """The configuration of these agents and of every server they refer to, directly or not."""
        wanted, found = list(agents), {}
        while wanted:
            name = wanted.pop()
            server = self._servers.get(name)
            if server is not None and name not in found:
                found[name] = {server.kind: {server.implementation: server.identity}}
                wanted += _references(server.settings)
        return found

    def without_own_metrics(self, agents: Iterable[str]) -> list[str]:
        """Those of the agents whose environment is known to have no metrics of its own."""
        environments = {agent: self.resources_server(agent) for agent in agents}
        return [
            agent
            for agent, name in environments.items()
            if name in self._servers and self._servers[name].own_metrics is False
        ]

    def resources_server(self, agent: str) -> str | None:
        """The environment of an agent, as far as its configuration says."""
        server = self._servers.get(agent)
        reference = server.settings.get("resources_server") if server else None
        return reference.get("name") if isinstance(reference, dict) else None


def _references(value: object) -> Iterator[str]:
    match value:
        case {"type": str(), "name": str() as name}:
            yield name
        case dict():
            for part in value.values():
                yield from _references(part)
        case list():
            for part in value:
                yield from _references(part)
