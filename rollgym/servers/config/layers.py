"""The layers of a configuration, merged: config files in order, `env.yaml`, the command line.

A later layer changes single settings of an earlier one. Two files that describe a server of the
same name differently are no such change but a mistake, and refused.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig, OmegaConf

from rollgym.servers.config.documents import Document, read_document
from rollgym.servers.config.overrides import Override, apply_override, read_overrides
from rollgym.servers.config.problems import ConfigError, Problems, suggestion
from rollgym.servers.config.resolving import ENVIRONMENT_FILE, Resolver
from rollgym.servers.config.roots import find_config, known_configs, plugin_roots
from rollgym.servers.config.sources import JsonValue, Source, Sources
from rollgym.servers.server import ServerKind

CONFIG_PATHS = "config_paths"
EXAMPLE = '"+config_paths=[a.yaml,b.yaml]"'


class Layers(NamedTuple):
    """What all layers say together, and where each part of it was written."""

    content: DictConfig
    sources: Sources
    roots: tuple[Path, ...]
    files: frozenset[str]
    given: frozenset[str]

    @property
    def plain(self) -> dict[str, object]:
        """The content as it is written, interpolations as text."""
        return plain_mapping(self.content)


def merge_layers(arguments: Sequence[str], cwd: Path, problems: Problems) -> Layers:
    """Read and merge every layer. Raises ConfigError only for arguments that are no overrides."""
    overrides = read_overrides(arguments)
    environment = _environment_layer(cwd, problems)
    found = _config_files(environment, overrides, cwd, problems)
    documents = [document for path in found for document in _read(path, cwd, problems)]
    _drop_contradictions(documents, problems)
    content, sources = OmegaConf.create({}), Sources()
    for document in [*documents, *environment]:
        content = _merged(content, document, sources)
    for override in overrides:
        apply_override(override, content, sources, problems)
    return Layers(
        content,
        sources,
        plugin_roots(cwd, found),
        frozenset(document.shown for document in documents),
        frozenset(override.path[0] for override in overrides if not override.removes),
    )


def _environment_layer(cwd: Path, problems: Problems) -> list[Document]:
    path = cwd / ENVIRONMENT_FILE
    return _read(path, cwd, problems) if path.exists() else []


def _read(path: Path, cwd: Path, problems: Problems) -> list[Document]:
    """The document, or none where it cannot be read."""
    try:
        return [read_document(path, cwd)]
    except ConfigError as error:
        problems.take(error.problems)
        return []


def _config_files(
    environment: Sequence[Document], overrides: Sequence[Override], cwd: Path, problems: Problems
) -> list[Path]:
    """The files that `config_paths` names; it decides on the other layers, so it is read first."""
    content, sources = OmegaConf.create({}), Sources()
    for document in environment:
        content = _merged(content, document, sources)
    for override in overrides:
        if override.path[0] == CONFIG_PATHS and not override.removes:
            apply_override(override, content, sources, problems)
    if CONFIG_PATHS not in content:
        return []
    where = sources.of((CONFIG_PATHS,))
    wanted = Resolver(sources, problems, cwd).value(content, CONFIG_PATHS)
    return _found_files(_paths(wanted, where, problems), cwd, where, problems)


def _paths(wanted: JsonValue, where: Source, problems: Problems) -> list[str]:
    match wanted:
        case None:
            return []
        case str():
            return [wanted]
        case list() if all(isinstance(path, str) for path in wanted):
            return [str(path) for path in wanted]
        case _:
            problems.add(where, f"{CONFIG_PATHS} is no list of paths", f"pass {EXAMPLE}")
            return []


def _found_files(wanted: Sequence[str], cwd: Path, where: Source, problems: Problems) -> list[Path]:
    roots, found = plugin_roots(cwd), []
    for name in dict.fromkeys(wanted):
        path = find_config(name, roots)
        if path is not None:
            found.append(path)
            continue
        meant = suggestion(name, known_configs(roots))
        looked = " and ".join(str(root) for root in roots)
        problems.add(
            where,
            f"{CONFIG_PATHS}: there is no file {name!r}{meant}",
            f"give its path; looked in {looked}",
        )
    return found


def _merged(content: DictConfig, document: Document, sources: Sources) -> DictConfig:
    for path, line, is_mapping in document.lines:
        source = Source(document.shown, line)
        (sources.begin if is_mapping else sources.give)(path, source)
    merged = OmegaConf.merge(content, document.content)
    assert isinstance(merged, DictConfig)  # noqa: S101 - both are mappings
    return merged


def _drop_contradictions(documents: Sequence[Document], problems: Problems) -> None:
    """Take out instances that an earlier document describes as another server."""
    known: dict[str, tuple[str, Source]] = {}
    for document in documents:
        lines = {line.path: line.line for line in document.lines}
        for name, described in _descriptions(document.content):
            here = Source(document.shown, lines.get((name,)))
            earlier, there = known.setdefault(name, (described, here))
            if earlier != described:
                problems.add(
                    here,
                    f"{name!r} is {described} here and {earlier} in {there}",
                    "rename one of the two, or name only one of the files",
                )
                del document.content[name]


def _descriptions(content: DictConfig) -> Iterator[tuple[str, str]]:
    """Each server and its `<kind>/<implementation>`, where there is no doubt about it."""
    for name, value in plain_mapping(content).items():
        kinds = value if isinstance(value, dict) else {}
        for kind in ServerKind:
            inner = kinds.get(kind.value)
            if isinstance(inner, dict) and len(inner) == 1:
                yield name, f"{kind}/{next(iter(inner))}"


def plain_mapping(content: DictConfig) -> dict[str, object]:
    """As it is written, interpolations as text."""
    plain = OmegaConf.to_container(content, resolve=False)
    assert isinstance(plain, dict)  # noqa: S101 - it is a DictConfig
    return {str(name): value for name, value in plain.items()}
