"""Loading what users plug in: entry points of packages, and functions that settings name."""

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from pkgutil import resolve_name
from typing import Any


def load_plugin(point: EntryPoint, what: str, error_of: Callable[[str], Exception]) -> Any:
    """The object that an entry point names. `what` names it in the message of `error_of`."""
    try:
        return point.load()
    except Exception as error:  # a module may raise anything when it is imported
        raise error_of(
            f"{what} {point.name} ({point.value}) cannot be loaded "
            f"({type(error).__name__}: {error}): fix or uninstall its package"
        ) from error


def find_named(name: str) -> Any:
    """What `module:name` names, also in the working directory. Raises what the import raises."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)  # the console script does not add it
    return resolve_name(name)
