"""Commands that tests start have the default signal dispositions, whatever the run inherited.

A run under `nohup` ignores SIGHUP; a run in the background of a non-interactive shell ignores
SIGINT and SIGQUIT. The programs that tests start would inherit that and ignore the signals that
tests send them. A signal that has a handler gets its default disposition in a new program, so this
plug-in gives each ignored signal a handler that does nothing: the run still ignores the signal, the
programs do not. The worker processes of pytest-xdist are such programs too, so the main process
sends them the list of ignored signals.
"""

import signal
from types import FrameType
from typing import Any

import pytest

_KEY = "ignored_signals"
_NUMBERS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def _ignore(number: int, frame: FrameType | None) -> None:
    pass


def _install(numbers: list[int]) -> None:
    for number in numbers:
        signal.signal(number, _ignore)


_inherited = [int(number) for number in _NUMBERS if signal.getsignal(number) == signal.SIG_IGN]
_install(_inherited)


def pytest_configure(config: pytest.Config) -> None:
    _install(getattr(config, "workerinput", {}).get(_KEY, []))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """pytest-xdist calls this in the main process for each worker process it starts."""
    node.workerinput[_KEY] = _inherited
