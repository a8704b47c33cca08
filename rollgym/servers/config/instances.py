"""The servers of a run: each with the file that implements it and how it is to be run."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from rollgym.servers.config.drafts import Draft
from rollgym.servers.config.problems import Problems, listed, suggestion
from rollgym.servers.config.roots import find_folder, implementations
from rollgym.servers.config.sources import Settings, Source, Sources
from rollgym.servers.server import ServerKind

LOOPBACK = "127.0.0.1"
HIGHEST_PORT = 65_535
MOST_PROCESSES = 256
RESTARTS = 3
MOST_RESTARTS = 1_000
_MODULE_FILE = re.compile(r"(?:[A-Za-z_]\w*/)*[A-Za-z_]\w*\.py")
_OPTIONS: dict[str, object] = {
    "host": Annotated[str, msgspec.Meta(min_length=1)],
    "port": Annotated[int, msgspec.Meta(ge=1, le=HIGHEST_PORT)],
    "processes": Annotated[int, msgspec.Meta(ge=1, le=MOST_PROCESSES)],
    "isolated": bool,
    "restarts": Annotated[int, msgspec.Meta(ge=0, le=MOST_RESTARTS)],
}


class InstanceConfig(msgspec.Struct, frozen=True):
    """One server: what it is, where its code is, and how it is run.

    `settings` is everything under the implementation's name, resolved, except `restarts`, which is
    the launcher's business; `places` has the file and line of each of them. Without `port` it gets
    a free one. Several processes have ports in a row.
    """

    name: str
    kind: ServerKind
    implementation: str
    folder: Path
    entrypoint: Path
    settings: Settings
    source: Source
    places: dict[str, Source]
    host: str = LOOPBACK
    port: int | None = None
    processes: int = 1
    isolated: bool = False
    restarts: int = RESTARTS

    @property
    def root(self) -> Path:
        """What has to be on Python's path for its modules to be found."""
        return self.folder.parent.parent

    @property
    def has_own_process(self) -> bool:
        return self.isolated or self.processes > 1

    @property
    def ports(self) -> tuple[int, ...]:
        """The fixed ports, one a process; none where they are free to choose."""
        return () if self.port is None else tuple(range(self.port, self.port + self.processes))

    def place(self, path: Sequence[str]) -> Source:
        """Where a setting stands, or the nearest one around it."""
        depths = range(len(path), 0, -1)
        known = (self.places.get(".".join(path[:depth])) for depth in depths)
        return next((place for place in known if place), self.source)


def locate_instances(
    drafts: Sequence[Draft], roots: Sequence[Path], sources: Sources, problems: Problems
) -> list[InstanceConfig]:
    """Find the code of every server; those that cannot be run are problems."""
    located = (_Locator(draft, roots, sources, problems).locate() for draft in drafts)
    return [instance for instance in located if instance is not None]


class _Locator:
    """Looks up one server. Each step adds what is wrong and gives None."""

    def __init__(
        self, draft: Draft, roots: Sequence[Path], sources: Sources, problems: Problems
    ) -> None:
        self._draft = draft
        self._roots = roots
        self._sources = sources
        self._problems = problems

    def locate(self) -> InstanceConfig | None:
        draft = self._draft
        entrypoint = self._entrypoint()
        folder = self._folder(entrypoint or "app.py")
        options = self._options()
        if entrypoint is None or folder is None or options is None:
            return None
        if not (folder / entrypoint).is_file():
            what = f"there is no file {folder / entrypoint}"
            self._add(what, "correct `entrypoint` or write the file", "entrypoint")
            return None
        return InstanceConfig(
            name=draft.name,
            kind=draft.kind,
            implementation=draft.implementation,
            folder=folder,
            entrypoint=folder / entrypoint,
            settings={name: value for name, value in draft.settings.items() if name != "restarts"},
            source=self._sources.of((draft.name,)),
            places=self._sources.under(draft.path),
            **options,
        )

    def _entrypoint(self) -> str | None:
        match self._draft.settings.get("entrypoint"):
            case str() as entrypoint if _MODULE_FILE.fullmatch(entrypoint):
                return entrypoint
            case None:
                self._add("it has no `entrypoint`", "add `entrypoint: app.py`")
            case entrypoint:
                where = f"{self._draft.kind}/{self._draft.implementation}"
                fix = f"name a Python file in {where}, such as app.py"
                self._add(f"`entrypoint` is {entrypoint!r}", fix, "entrypoint")
        return None

    def _folder(self, entrypoint: str) -> Path | None:
        kind, implementation = self._draft.kind, self._draft.implementation
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
        """The launcher's part of the settings, each checked by itself."""
        settings = self._draft.settings
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
            self._add("`port` leaves no room for the ports of all processes", "lower it", "port")
            return None
        return options if options.keys() == given.keys() else None

    def _add(self, what: str, fix: str, *key: str) -> None:
        where = self._sources.of((*self._draft.path, *key))
        self._problems.add(where, f"{self._draft.name}: {what}", fix)
