"""From the descriptions of servers in a configuration to server instances.

A server is a key at the top: `<name>: {<kind>: {<implementation>: {entrypoint: app.py, …}}}`. Other
keys at the top are variables and options. Only in the config files that were named is a mapping
that almost describes a server reported as a mistake; `env.yaml` may hold anything.

*External servers* have a `url`, or a list of URLs for several processes, in place of an
`entrypoint`. They run elsewhere, so they are called over HTTP and not started.

*References* between servers are settings of the form `{type: …, name: …}`, whose `type` is, or
almost is, a kind of server. They are checked before anything starts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from rollgym.servers.config.documents import Resolver
from rollgym.servers.config.instances import HIGHEST_PORT, ServerInstance, is_http_url
from rollgym.servers.config.layers import Layers
from rollgym.servers.config.plugins import find_folder, implementations
from rollgym.servers.config.problems import (
    JsonValue,
    KeyPath,
    Locations,
    Problems,
    listed,
)
from rollgym.servers.server import ServerKind
from rollgym.suggestions import nearest, suggestion

KINDS = frozenset(kind.value for kind in ServerKind)
URL = "url"
MOST_PROCESSES = 256
MOST_RESTARTS = 1_000
_MODULE_FILE = re.compile(r"(?:[A-Za-z_]\w*/)*[A-Za-z_]\w*\.py")
_OPTIONS: dict[str, object] = {
    "host": Annotated[str, msgspec.Meta(min_length=1)],
    "port": Annotated[int, msgspec.Meta(ge=1, le=HIGHEST_PORT)],
    "processes": Annotated[int, msgspec.Meta(ge=1, le=MOST_PROCESSES)],
    "isolated": bool,
    "restarts": Annotated[int, msgspec.Meta(ge=0, le=MOST_RESTARTS)],
    "ray_resources": dict[str, Annotated[float, msgspec.Meta(ge=0)]],
}
_OF_THE_LAUNCHER = frozenset({"restarts", "ray_resources"})
"""The options that the server itself does not get."""


def described_servers(layers: Layers) -> dict[str, str]:
    """The name and kind of every server, also of those with a wrong description."""
    return {
        name: kind
        for name, value in layers.plain.items()
        if isinstance(value, dict)
        for kind in value
        if kind in KINDS
    }


def read_instances(layers: Layers, cwd: Path, problems: Problems) -> list[ServerInstance]:
    """Every server whose description has the right form, its settings resolved.

    Its code is not looked for yet (`locate_instances`), nor are its URLs checked
    (`check_external`).
    """
    reader = _DescriptionReader(layers, Resolver(layers.locations, problems, cwd), problems)
    described = layers.plain.items()
    found = (reader.read(name, value) for name, value in described if isinstance(value, dict))
    return [instance for instance in found if instance is not None]


class _DescriptionReader:
    """Reads one description at a time. What is wrong with it becomes a problem."""

    def __init__(self, layers: Layers, resolver: Resolver, problems: Problems) -> None:
        self._layers = layers
        self._locations = layers.locations
        self._resolver = resolver
        self._problems = problems

    def read(self, name: str, value: dict[str, object]) -> ServerInstance | None:
        if not KINDS & value.keys():
            self._report_near_misses(name, value)
            return None
        kind = self._only_key((name,), value, f"kind of server ({listed(KINDS)})")
        if kind is None:
            return None
        inner = value[kind]
        implementation = self._only_key((name, kind), inner, "implementation")
        if implementation is None or not isinstance(inner, dict):
            return None
        path = (name, kind, implementation)
        if not isinstance(inner[implementation], dict):
            what = f"{name}: {implementation!r} has no settings"
            self._problems.add(self._locations.of(path), what, "add `entrypoint: app.py` to it")
            return None
        node = self._layers.content[name][kind][implementation]
        return ServerInstance(
            name=name,
            kind=ServerKind(kind),
            implementation=implementation,
            settings=self._resolver.mapping(node, path),
            source=self._locations.of((name,)),
            places=self._locations.under(path),
        )

    def _only_key(self, path: KeyPath, value: object, noun: str) -> str | None:
        """The one key of a mapping that must have exactly one."""
        names = [str(name) for name in value] if isinstance(value, dict) else []
        if len(names) == 1:
            return names[0]
        found = f"{len(names)} keys ({', '.join(names)})" if names else "no keys"
        places = sorted({str(self._locations.of((*path, name))) for name in names})
        written = f", written in {' and '.join(places)}" if len(places) > 1 else ""
        self._problems.add(
            self._locations.of(path),
            f"{path[0]}: `{path[-1]}` has {found}{written}",
            f"give exactly one {noun}",
        )
        return None

    def _report_near_misses(self, name: str, value: dict[str, object]) -> None:
        if self._locations.of((name,)).file not in self._layers.files:
            return
        for key, inner in value.items():
            if nearest(str(key), KINDS) or _has_entrypoint(inner):
                self._problems.add(
                    self._locations.of((name, str(key))),
                    f"{name}: {key!r} is not a kind of server{suggestion(str(key), KINDS)}",
                    f"use one of {listed(KINDS)}",
                )


def _has_entrypoint(inner: object) -> bool:
    parts = inner.values() if isinstance(inner, dict) else ()
    return any(isinstance(part, dict) and "entrypoint" in part for part in parts)


def check_external(
    instances: Sequence[ServerInstance], locations: Locations, problems: Problems
) -> list[ServerInstance]:
    """The external servers among the instances, with their URLs."""
    external = [instance for instance in instances if URL in instance.settings]
    return [checked for each in external for checked in _with_urls(each, locations, problems)]


def _with_urls(
    instance: ServerInstance, locations: Locations, problems: Problems
) -> list[ServerInstance]:
    where = locations.of((*instance.path, URL))
    given = instance.settings[URL]
    urls = given if isinstance(given, list) else [given]
    if "entrypoint" in instance.settings:
        what = f"{instance.name}: it has a `url` and an `entrypoint`"
        problems.add(where, what, "keep `url` for a server that runs elsewhere, or `entrypoint`")
        return []
    wrong = [url for url in urls if not is_http_url(url)]
    if wrong or not urls:
        what = f"{instance.name}: `url` is {wrong[0] if wrong else given!r}"
        problems.add(where, what, "give one such as http://127.0.0.1:8000, or a list of them")
        return []
    return [msgspec.structs.replace(instance, urls=[str(url).rstrip("/") for url in urls])]


def locate_instances(
    instances: Sequence[ServerInstance],
    roots: Sequence[Path],
    locations: Locations,
    problems: Problems,
) -> list[ServerInstance]:
    """The servers to start, with their code and their options; wrong ones become problems."""
    own = (instance for instance in instances if URL not in instance.settings)
    located = (_Locator(instance, roots, locations, problems).locate() for instance in own)
    return [instance for instance in located if instance is not None]


class _Locator:
    """Finds the code of one server. Each step adds what is wrong and returns None."""

    def __init__(
        self,
        instance: ServerInstance,
        roots: Sequence[Path],
        locations: Locations,
        problems: Problems,
    ) -> None:
        self._instance = instance
        self._roots = roots
        self._locations = locations
        self._problems = problems

    def locate(self) -> ServerInstance | None:
        entrypoint = self._entrypoint()
        folder = self._folder(entrypoint or "app.py")
        options = self._options()
        if entrypoint is None or folder is None or options is None:
            return None
        if not (folder / entrypoint).is_file():
            what = f"there is no file {folder / entrypoint}"
            self._add(what, "correct `entrypoint` or write the file", "entrypoint")
            return None
        settings = self._instance.settings
        return msgspec.structs.replace(
            self._instance,
            folder=folder,
            entrypoint=folder / entrypoint,
            settings={
                name: value for name, value in settings.items() if name not in _OF_THE_LAUNCHER
            },
            **options,
        )

    def _entrypoint(self) -> str | None:
        match self._instance.settings.get("entrypoint"):
            case str() as entrypoint if _MODULE_FILE.fullmatch(entrypoint):
                return entrypoint
            case None:
                self._add("it has no `entrypoint`", "add `entrypoint: app.py`")
            case entrypoint:
                where = f"{self._instance.kind}/{self._instance.implementation}"
                fix = f"name a Python file in {where}, such as app.py"
                self._add(f"`entrypoint` is {entrypoint!r}", fix, "entrypoint")
        return None

    def _folder(self, entrypoint: str) -> Path | None:
        kind, implementation = self._instance.kind, self._instance.implementation
        folder = find_folder(kind, implementation, entrypoint, self._roots)
        if folder is None:
            available = implementations(kind, self._roots)
            looked = " and ".join(str(root) for root in self._roots)
            self._add(
                f"there is no folder {kind}/{implementation}"
                f"{suggestion(implementation, available)}",
                f"available: {listed(available)} (looked in {looked})",
            )
        return folder

    def _options(self) -> dict[str, Any] | None:
        """The launcher's part of the settings, each checked alone."""
        settings = self._instance.settings
        given = {name: settings[name] for name in _OPTIONS if settings.get(name) is not None}
        if given.get("port") == 0:
            del given["port"]
        options = {}
        for name, value in given.items():
            try:
                options[name] = msgspec.convert(value, _OPTIONS[name])
            except msgspec.ValidationError as error:
                self._add(f"`{name}`: {error}", "correct the value", name)
        if options.get("port", 0) + options.get("processes", 1) - 1 > HIGHEST_PORT:
            self._add("`port` is too high for the ports of all processes", "lower it", "port")
            return None
        return options if options.keys() == given.keys() else None

    def _add(self, what: str, fix: str, *key: str) -> None:
        where = self._locations.of((*self._instance.path, *key))
        self._problems.add(where, f"{self._instance.name}: {what}", fix)


def check_references(
    instances: Sequence[ServerInstance],
    known: Mapping[str, str],
    layers: Layers,
    problems: Problems,
) -> None:
    """Check every reference. `known` has the kind of every server in the configuration."""
    for instance in instances:
        for at, kind, name in references(instance.settings, instance.path):
            where, key = layers.locations.of(at), ".".join(at[3:])
            if kind not in KINDS:
                problems.add(
                    where,
                    f"{instance.name}: `{key}` has the type {kind!r}{suggestion(kind, KINDS)}",
                    f"use one of {listed(KINDS)}",
                )
            elif name not in known:
                problems.add(
                    where,
                    f"{instance.name}: `{key}` names {name!r}, and no server has that name"
                    f"{_close_or_renamed(name, known, layers)}",
                    f"name one of its type ({listed(_of_kind(kind, known))}), or add the file "
                    "that defines it to config_paths",
                )
            elif known[name] != kind:
                problems.add(
                    where,
                    f"{instance.name}: `{key}` names {name!r} of the type {kind}, but its type is "
                    f"{known[name]}",
                    f"correct the type, or name one of {listed(_of_kind(kind, known))}",
                )


def _close_or_renamed(name: str, known: Mapping[str, str], layers: Layers) -> str:
    place = layers.renamed.get(name)
    if place is None:
        return suggestion(name, known)
    return f" any more: `_inherit_from` at {place} took it over (`_copy` would keep both)"


def references(value: JsonValue, path: KeyPath) -> Iterator[tuple[KeyPath, str, str]]:
    """The references to servers inside of a setting: the path, the type and the name of each."""
    match value:
        case {"type": str() as kind, "name": str() as name, **rest} if not rest and _is_kind(kind):
            yield path, kind, name
        case dict():
            for key, part in value.items():
                yield from references(part, (*path, key))
        case list():
            for number, part in enumerate(value):
                yield from references(part, (*path, str(number)))


def _is_kind(name: str) -> bool:
    """Whether it almost is a kind; a tool, `{type: function, name: …}`, is not a reference."""
    return nearest(name, KINDS) is not None


def _of_kind(kind: str, known: Mapping[str, str]) -> list[str]:
    return [name for name, its_kind in known.items() if its_kind == kind]
