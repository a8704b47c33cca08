"""A plug-in's class, from its file, and its settings, checked against what the class declares.

`app.py` is imported under the name `<kind>.<implementation>.app`, with the folder that holds the
kinds on Python's path, so that its own modules can be imported beside it and its classes can be
found again in another process.
"""

import importlib
import sys
from pathlib import Path
from traceback import walk_tb
from types import ModuleType

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rollgym.servers.config.instances import InstanceConfig
from rollgym.servers.config.problems import ConfigError, Problem, Problems, listed, suggestion
from rollgym.servers.config.roots import shipped_root
from rollgym.servers.server import Server, ServerConfig
from rollgym.store.settings import hide_secrets_in_text


def load_server_class(instance: InstanceConfig) -> type[Server]:
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


def load_settings(instance: InstanceConfig, server_class: type[Server]) -> ServerConfig:
    """The instance's settings as the class wants them. Raises ConfigError with every problem."""
    wanted = server_class.config_type()
    try:
        return wanted.model_validate(instance.settings)
    except ValidationError as error:
        problems = Problems()
        # Inputs are left out of what pydantic says: they may be credentials.
        for detail in error.errors(include_url=False, include_input=False, include_context=False):
            _add(detail, instance, wanted, problems)
        raise ConfigError(problems) from error


def _add(
    detail: ErrorDetails, instance: InstanceConfig, wanted: type[ServerConfig], problems: Problems
) -> None:
    path = [str(part) for part in detail["loc"]]
    key, where = ".".join(path), instance.place(path)
    match detail["type"]:
        case "extra_forbidden" if len(path) == 1:
            names = [field.alias or name for name, field in wanted.model_fields.items()]
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


def _look_first_in(instance: InstanceConfig) -> None:
    """A plug-in of this name that is also elsewhere, such as the one it was copied from, waits.

    Only among plug-ins: at the front of Python's whole path, a root could hide other modules.
    """
    plugins = importlib.import_module(instance.kind)
    own = str(instance.root / instance.kind)
    plugins.__path__ = [own, *(path for path in plugins.__path__ if path != own)]


def _import(instance: InstanceConfig) -> ModuleType:
    relative = instance.entrypoint.relative_to(instance.root).with_suffix("")
    # Also what ships with rollgym, for a plug-in that derives from one of those.
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
            f"{_innermost(error, instance)}: {error.name!r} is not "
            f"{'there' if own else 'installed'}",
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
            "rename one of the two folders, or take the other one off Python's path",
        )
    return module


def _innermost(error: BaseException, instance: InstanceConfig) -> str:
    """The plug-in's own line that the import came to, as `file:line`."""
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    own = [place for place in frames if Path(place[0]).is_relative_to(instance.root)]
    ours = [place for place in own if Path(place[0]).is_relative_to(instance.folder)] or own
    file, line = ours[-1] if ours else (str(instance.entrypoint), 1)
    return f"{file}:{line}"


def _refused(instance: InstanceConfig, what: str, fix: str) -> ConfigError:
    return ConfigError([Problem(str(instance.source), f"{instance.name}: {what}", fix)])
