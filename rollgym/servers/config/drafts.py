"""What a configuration says of each server, before anything is looked up.

A server is a key at the top: `<name>: {<kind>: {<implementation>: {entrypoint: app.py, …}}}`. Other
keys at the top are variables and options. Only in the config files that were named is a mapping
that almost describes a server taken for a mistake; `env.yaml` may hold anything.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

import msgspec

from rollgym.servers.config.layers import Layers
from rollgym.servers.config.problems import CLOSE_ENOUGH, Problems, listed, suggestion
from rollgym.servers.config.resolving import Resolver
from rollgym.servers.config.sources import KeyPath, Settings
from rollgym.servers.server import ServerKind

KINDS = frozenset(kind.value for kind in ServerKind)


class Draft(msgspec.Struct, frozen=True):
    """A server as it is described, its settings resolved."""

    name: str
    kind: ServerKind
    implementation: str
    settings: Settings

    @property
    def path(self) -> KeyPath:
        """Where its settings stand."""
        return (self.name, self.kind.value, self.implementation)


def described_servers(layers: Layers) -> dict[str, str]:
    """The name and kind of every server, also of those of which there is no draft."""
    return {
        name: kind
        for name, value in layers.plain.items()
        if isinstance(value, dict)
        for kind in value
        if kind in KINDS
    }


def read_drafts(layers: Layers, cwd: Path, problems: Problems) -> list[Draft]:
    """Every server whose description has the right shape; the others are problems."""
    resolver = Resolver(layers.sources, problems, cwd)
    return [
        draft
        for name, value in layers.plain.items()
        if isinstance(value, dict)
        for draft in _read(name, value, layers, resolver, problems)
    ]


def _read(
    name: str,
    value: dict[str, object],
    layers: Layers,
    resolver: Resolver,
    problems: Problems,
) -> Iterator[Draft]:
    if not KINDS & value.keys():
        _tell_near_misses(name, value, layers, problems)
        return
    kind = _only((name,), value, f"kind of server ({listed(KINDS)})", layers, problems)
    if kind is None:
        return
    inner = value[kind]
    implementation = _only((name, kind), inner, "implementation", layers, problems)
    if implementation is None or not isinstance(inner, dict):
        return
    path = (name, kind, implementation)
    if not isinstance(inner[implementation], dict):
        what = f"{name}: {implementation!r} has no settings"
        problems.add(layers.sources.of(path), what, "add `entrypoint: app.py` to it")
        return
    node = layers.content[name][kind][implementation]
    yield Draft(name, ServerKind(kind), implementation, resolver.mapping(node, path))


def _only(
    path: KeyPath, value: object, noun: str, layers: Layers, problems: Problems
) -> str | None:
    """The one key of a mapping that must have one."""
    names = [str(name) for name in value] if isinstance(value, dict) else []
    if len(names) == 1:
        return names[0]
    found = f"{len(names)} keys ({', '.join(names)})" if names else "nothing in it"
    places = sorted({str(layers.sources.of((*path, name))) for name in names})
    written = f", written in {' and '.join(places)}" if len(places) > 1 else ""
    problems.add(
        layers.sources.of(path),
        f"{path[0]}: `{path[-1]}` has {found}{written}",
        f"give exactly one {noun}",
    )
    return None


def _tell_near_misses(
    name: str, value: dict[str, object], layers: Layers, problems: Problems
) -> None:
    if layers.sources.of((name,)).file not in layers.files:
        return
    for key, inner in value.items():
        if get_close_matches(str(key), KINDS, 1, CLOSE_ENOUGH) or _has_entrypoint(inner):
            problems.add(
                layers.sources.of((name, str(key))),
                f"{name}: {key!r} is no kind of server{suggestion(str(key), KINDS)}",
                f"use one of {listed(KINDS)}",
            )


def _has_entrypoint(inner: object) -> bool:
    parts = inner.values() if isinstance(inner, dict) else ()
    return any(isinstance(part, dict) and "entrypoint" in part for part in parts)
