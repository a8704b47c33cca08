"""Plug-ins: the folders that hold them, the class in a file, and its settings.

*Roots* are folders that hold `resources_servers/`, `responses_api_agents/` and so on. The working
directory comes first, so that users can keep their plug-ins beside the bundled ones. Then come the
folders of the given config files, then the plug-ins of rollgym: in the checkout around the package,
or in the copy inside an installed one.

*Modules.* `app.py` is imported under the name `<kind>.<implementation>.app`, with the root on
Python's path, so that the plug-in can import its modules and another process can find its classes.
"""

import importlib
import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from traceback import walk_tb
from types import ModuleType

import msgspec
from pydantic import ValidationError
from pydantic_core import ErrorDetails

import rollgym
from rollgym.servers.config.instances import ServerInstance
from rollgym.servers.config.problems import ConfigError, Problem, Problems, listed
from rollgym.servers.server import NoEffect, Server, ServerConfig, ServerKind
from rollgym.store.settings import hide_secrets_in_text
from rollgym.suggestions import suggestion

_LOGGER = logging.getLogger(__name__)
_PACKAGE = Path(rollgym.__file__).resolve().parent


def load_server_class(instance: ServerInstance) -> type[Server]:
    """The one server class that the entrypoint defines. Raises ConfigError."""
    module = _import(instance)
    found = _defined_servers(module)
    if len(found) != 1:
        names = listed(value.__name__ for value in found)
        raise _refused(
            instance,
            f"{instance.entrypoint} defines {len(found)} server classes ({names})",
            "define exactly one there; import its bases from other modules",
        )
    kind = getattr(found[0], "kind", None)
    if kind != instance.kind:
        raise _refused(
            instance,
            f"{found[0].__name__} in {instance.entrypoint} belongs to {kind}, not {instance.kind}",
            f"derive it from the base class of {instance.kind}, or move its folder",
        )
    return found[0]


def load_settings(instance: ServerInstance, server_class: type[Server]) -> ServerConfig:
    """The instance's settings as the class wants them. Raises ConfigError with every problem.

    Logs a warning for each setting that has no effect.
    """
    wanted = server_class.config_type()
    try:
        settings = wanted.model_validate(instance.settings)
    except ValidationError as error:
        problems = Problems()
        # Inputs are left out of what pydantic says: they may be credentials.
        for detail in error.errors(include_url=False, include_input=False, include_context=False):
            _add(detail, instance, wanted, problems)
        raise ConfigError(problems) from error
    for key, reason in _without_effect(wanted).items():
        if instance.settings.get(key) is not None:
            where, name = instance.place([key]), instance.name
            _LOGGER.warning("%s: %s: `%s` has no effect here: %s", where, name, key, reason)
    return settings


def _without_effect(wanted: type[ServerConfig]) -> dict[str, str]:
    """The keys that change nothing, and why."""
    return {
        field.alias or name: mark.reason
        for name, field in wanted.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, NoEffect)
    }


def _add(
    detail: ErrorDetails, instance: ServerInstance, wanted: type[ServerConfig], problems: Problems
) -> None:
    path = [str(part) for part in detail["loc"]]
    key, where = ".".join(path), instance.place(path)
    match detail["type"]:
        case "extra_forbidden" if len(path) == 1:
            names = {field.alias or name for name, field in wanted.model_fields.items()}
            names -= _without_effect(wanted).keys()
            what = f"{instance.name}: unknown key `{key}`{suggestion(key, names)}"
            problems.add(where, what, f"known keys: {listed(names)}")
        case "missing":
            what = f"{instance.name}: the key `{key}` is missing"
            problems.add(where, what, f"add `{path[-1]}: …`")
        case _:
            said = hide_secrets_in_text(detail["msg"])
            problems.add(where, f"{instance.name}: key `{key}`: {said}", "correct the value")


def _defined_servers(module: ModuleType) -> list[type[Server]]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Server)
        and value.__module__ == module.__name__
    ]


def _look_first_in(instance: ServerInstance) -> None:
    """Prefer this plug-in to one of the same name in another root, such as its original.

    Only the path of plug-ins changes: at the front of Python's path, a root could hide other
    modules.
    """
    plugins = importlib.import_module(instance.kind)
    own = str(instance.root / instance.kind)
    plugins.__path__ = [own, *(path for path in plugins.__path__ if path != own)]


def _import(instance: ServerInstance) -> ModuleType:
    relative = instance.entrypoint.relative_to(instance.root).with_suffix("")
    # The shipped plug-ins too, for a plug-in that derives from one of them.
    for root in (instance.root, shipped_root()):
        if str(root) not in sys.path:
            sys.path.append(str(root))
            importlib.invalidate_caches()
    _look_first_in(instance)
    try:
        module = importlib.import_module(".".join(relative.parts))
    except ModuleNotFoundError as error:
        own = (error.name or "").startswith(f"{instance.kind}.")
        raise _refused(
            instance,
            f"{_innermost(error, instance)}: {error.name!r} is "
            f"{'missing' if own else 'not installed'}",
            "write the module or correct its name"
            if own
            else f"install the package into the environment of {sys.executable}",
        ) from error
    except SyntaxError as error:
        place = f"{error.filename}:{error.lineno}"
        raise _refused(instance, f"{place}: {error.msg}", "correct the file") from error
    except (Exception, SystemExit) as error:
        said = hide_secrets_in_text(f"{type(error).__name__}: {error}")
        raise _refused(
            instance, f"{_innermost(error, instance)}: {said}", "correct what is imported there"
        ) from error
    if module.__file__ is None or Path(module.__file__).resolve() != instance.entrypoint.resolve():
        raise _refused(
            instance,
            f"Python finds {module.__name__} in {module.__file__}, not {instance.entrypoint}",
            "rename one of the two folders, or remove the other one from Python's path",
        )
    return module


def _innermost(error: BaseException, instance: ServerInstance) -> str:
    """The innermost line of the plug-in in the error's traceback, as `file:line`."""
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    own = [place for place in frames if Path(place[0]).is_relative_to(instance.root)]
    ours = [place for place in own if Path(place[0]).is_relative_to(instance.folder)] or own
    file, line = ours[-1] if ours else (str(instance.entrypoint), 1)
    return f"{file}:{line}"


def _refused(instance: ServerInstance, what: str, fix: str) -> ConfigError:
    return ConfigError([Problem(str(instance.source), f"{instance.name}: {what}", fix)])


def plugin_roots(cwd: Path, config_files: Iterable[Path] = ()) -> tuple[Path, ...]:
    """The roots in the order of search."""
    around = [root for path in config_files for root in _root_of(path)]
    return tuple(dict.fromkeys([cwd.resolve(), *around, shipped_root()]))


def shipped_root() -> Path:
    """The root of the plug-ins that come with rollgym."""
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
    """The paths of all config files, to suggest one for a path that does not exist."""
    return [
        str(path.relative_to(root))
        for root in roots
        for kind in ServerKind
        for path in sorted((root / kind).glob("*/configs/*.yaml"))
    ]


def find_folder(
    kind: ServerKind, implementation: str, entrypoint: str, roots: Iterable[Path]
) -> Path | None:
    """The implementation's folder: the first with the entrypoint, or else the first one.

    Python finds the same one where several roots have a folder of that name.
    """
    folders = [
        root / kind / implementation
        for root in roots
        if (root / kind / implementation).is_dir() and implementation
    ]
    complete = (folder for folder in folders if (folder / entrypoint).is_file())
    return next(complete, folders[0] if folders else None)


def located(instance: ServerInstance, cwd: Path) -> ServerInstance:
    """The instance with the folder that its plug-in has on this machine, where that is another."""
    if instance.entrypoint.is_file():
        return instance
    entrypoint = str(instance.entrypoint.relative_to(instance.folder))
    folder = find_folder(instance.kind, instance.implementation, entrypoint, plugin_roots(cwd))
    if folder is None:
        return instance  # loading it gives the error message
    return msgspec.structs.replace(instance, folder=folder, entrypoint=folder / entrypoint)


def implementations(kind: ServerKind, roots: Iterable[Path]) -> set[str]:
    """Every implementation of a kind."""
    return {
        folder.name
        for root in roots
        if (root / kind).is_dir()
        for folder in (root / kind).iterdir()
        if folder.is_dir() and folder.name[0] not in "._"
    }
