"""Loading what other packages plug in through entry points."""

from collections.abc import Callable
from importlib.metadata import EntryPoint
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
