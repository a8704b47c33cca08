"""The layers of a configuration, merged: config files in order, `env.yaml`, the command line.

A later layer changes single settings of an earlier one. Two files that describe different servers
under the same name are a problem. Then servers take over settings of others (`inheritance.py`).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig, OmegaConf

from rollgym.servers.config.documents import ENVIRONMENT_FILE, Document, Resolver, read_document
from rollgym.servers.config.inheritance import apply_inheritance
from rollgym.servers.config.overrides import Override, apply_override, read_overrides
from rollgym.servers.config.plugins import find_config, known_configs, plugin_roots
from rollgym.servers.config.problems import ConfigError, JsonValue, Location, Locations, Problems
from rollgym.servers.server import ServerKind
from rollgym.suggestions import suggestion

CONFIG_PATHS = "config_paths"
EXAMPLE = '"+config_paths=[a.yaml,b.yaml]"'


class Layers(NamedTuple):
    """The merged content of all layers, and where each setting was written.

    `files` are the config files as messages name them, `given` the keys of the command line.
    `renamed` are the servers that `_inherit_from` took over, with its location.
    """

    content: DictConfig
    locations: Locations
    roots: tuple[Path, ...]
    files: frozenset[str]
    given: frozenset[str]
    renamed: dict[str, Location]

    @property
    def plain(self) -> dict[str, object]:
        """The content with interpolations as text."""
        return plain_mapping(self.content)


def merge_layers(arguments: Sequence[str], cwd: Path, problems: Problems) -> Layers:
    """Read and merge all layers. Raises ConfigError for arguments that are not overrides."""
    overrides = read_overrides(arguments)
    environment = _environment_layer(cwd, problems)
    found = _config_files(environment, overrides, cwd, problems)
    documents = [document for path in found for document in _read(path, cwd, problems)]
    _drop_contradictions(documents, problems)
    content, locations = OmegaConf.create({}), Locations()
    for document in [*documents, *environment]:
        content = _merged(content, document, locations)
    for override in overrides:
        apply_override(override, content, locations, problems)
    content, renamed = apply_inheritance(content, locations, problems)
    return Layers(
        content,
        locations,
        plugin_roots(cwd, found),
        frozenset(document.shown for document in documents),
        frozenset(override.path[0] for override in overrides if not override.removes),
        renamed,
    )


def _environment_layer(cwd: Path, problems: Problems) -> list[Document]:
    path = cwd / ENVIRONMENT_FILE
    return _read(path, cwd, problems) if path.exists() else []


def _read(path: Path, cwd: Path, problems: Problems) -> list[Document]:
    """The document, or an empty list where it cannot be read."""
    try:
        return [read_document(path, cwd)]
    except ConfigError as error:
        problems.extend(error.problems)
        return []


def _config_files(
    environment: Sequence[Document], overrides: Sequence[Override], cwd: Path, problems: Problems
) -> list[Path]:
    """The files that `config_paths` names; it is read first, because it names the other layers."""
    content, locations = OmegaConf.create({}), Locations()
    for document in environment:
        content = _merged(content, document, locations)
    for override in overrides:
        if override.path[0] == CONFIG_PATHS and not override.removes:
            apply_override(override, content, locations, problems)
    if CONFIG_PATHS not in content:
        return []
    where = locations.of((CONFIG_PATHS,))
    wanted = Resolver(locations, problems, cwd).value(content, CONFIG_PATHS)
    return _found_files(_paths(wanted, where, problems), cwd, where, problems)


def _paths(wanted: JsonValue, where: Location, problems: Problems) -> list[str]:
    match wanted:
        case None:
            return []
        case str():
            return [wanted]
        case list() if all(isinstance(path, str) for path in wanted):
            return [str(path) for path in wanted]
        case _:
            problems.add(where, f"{CONFIG_PATHS} is not a list of paths", f"pass {EXAMPLE}")
            return []


def _found_files(
    wanted: Sequence[str], cwd: Path, where: Location, problems: Problems
) -> list[Path]:
    roots, found = plugin_roots(cwd), []
    for name in dict.fromkeys(wanted):
        path = find_config(name, roots)
        if path is not None:
            found.append(path)
            continue
        similar = suggestion(name, known_configs(roots))
        looked = " and ".join(str(root) for root in roots)
        problems.add(
            where,
            f"{CONFIG_PATHS}: there is no file {name!r}{similar}",
            f"give its path; looked in {looked}",
        )
    return found


def _merged(content: DictConfig, document: Document, locations: Locations) -> DictConfig:
    for path, line, is_mapping in document.lines:
        source = Location(document.shown, line)
        (locations.add_mapping if is_mapping else locations.add_value)(path, source)
    merged = OmegaConf.merge(content, document.content)
    assert isinstance(merged, DictConfig)  # noqa: S101 - both are mappings
    return merged


def _drop_contradictions(documents: Sequence[Document], problems: Problems) -> None:
    """Remove instances that an earlier document describes as another server."""
    known: dict[str, tuple[str, Location]] = {}
    for document in documents:
        lines = {line.path: line.line for line in document.lines}
        for name, described in _descriptions(document.content):
            here = Location(document.shown, lines.get((name,)))
            earlier, there = known.setdefault(name, (described, here))
            if earlier != described:
                problems.add(
                    here,
                    f"{name!r} is {described} here and {earlier} in {there}",
                    "rename one of the two, or name only one of the files",
                )
                del document.content[name]


def _descriptions(content: DictConfig) -> Iterator[tuple[str, str]]:
    """Each server and its `<kind>/<implementation>`, where that is unambiguous."""
    for name, value in plain_mapping(content).items():
        kinds = value if isinstance(value, dict) else {}
        for kind in ServerKind:
            inner = kinds.get(kind.value)
            if isinstance(inner, dict) and len(inner) == 1:
                yield name, f"{kind}/{next(iter(inner))}"


def described_in(config: str, roots: Sequence[Path], kind: ServerKind) -> list[tuple[str, str]]:
    """The servers of a kind that a config file of the plug-ins describes, with their
    implementations."""
    path = find_config(config, roots)
    if path is None:
        return []
    try:
        content = read_document(path, roots[0]).content
    except ConfigError:
        return []
    prefix = f"{kind}/"
    return [
        (name, described.removeprefix(prefix))
        for name, described in _descriptions(content)
        if described.startswith(prefix)
    ]


def plain_mapping(content: DictConfig) -> dict[str, object]:
    """The content with interpolations as text."""
    plain = OmegaConf.to_container(content, resolve=False)
    assert isinstance(plain, dict)  # noqa: S101 - it is a DictConfig
    return {str(name): value for name, value in plain.items()}
