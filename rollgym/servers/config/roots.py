"""Where plug-ins are: folders that hold `resources_servers/`, `responses_api_agents/` and so on.

The working directory comes first, so that people keep their own beside the bundled ones. Then come
the folders that the given config files belong to, then what ships with rollgym: the checkout around
the package, or the copy inside an installed one.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import rollgym
from rollgym.servers.server import ServerKind

_PACKAGE = Path(rollgym.__file__).resolve().parent


def plugin_roots(cwd: Path, config_files: Iterable[Path] = ()) -> tuple[Path, ...]:
    """The roots in the order in which they are looked at."""
    around = [root for path in config_files for root in _root_of(path)]
    return tuple(dict.fromkeys([cwd.resolve(), *around, shipped_root()]))


def shipped_root() -> Path:
    """Where the plug-ins are that come with rollgym."""
    bundled = _PACKAGE / "bundled"
    return bundled if bundled.is_dir() else _PACKAGE.parent


def _root_of(config_file: Path) -> Iterator[Path]:
    """`root` of `root/<kind>/<implementation>/configs/x.yaml`."""
    parents = config_file.resolve().parents
    if len(parents) > 3 and parents[2].name in set(ServerKind):
        yield parents[3]


def find_config(path: str, roots: Iterable[Path]) -> Path | None:
    """The file of this name in the first root that has it."""
    wanted = Path(path).expanduser()
    return next((root / wanted for root in roots if (root / wanted).is_file()), None)


def known_configs(roots: Iterable[Path]) -> list[str]:
    """What could have been meant by a path that leads nowhere."""
    return [
        str(path.relative_to(root))
        for root in roots
        for kind in ServerKind
        for path in sorted((root / kind).glob("*/configs/*.yaml"))
    ]


def find_folder(
    kind: ServerKind, implementation: str, entrypoint: str, roots: Iterable[Path]
) -> Path | None:
    """The implementation's folder: the first that has the entrypoint, or else the first there is.

    That is also the one that Python finds, where several roots have a folder of that name.
    """
    folders = [
        root / kind / implementation
        for root in roots
        if (root / kind / implementation).is_dir() and implementation
    ]
    complete = (folder for folder in folders if (folder / entrypoint).is_file())
    return next(complete, folders[0] if folders else None)


def implementations(kind: ServerKind, roots: Iterable[Path]) -> set[str]:
    """Every implementation of a kind that can be named."""
    return {
        folder.name
        for root in roots
        if (root / kind).is_dir()
        for folder in (root / kind).iterdir()
        if folder.is_dir() and folder.name[0] not in "._"
    }
