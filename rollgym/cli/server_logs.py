"""The logs of servers that a collection runs itself: a file beside its journal.

Whatever a request comes to is in the rollouts or in the failures. On a terminal a line for each
that failed would drown the progress, so these lines go to the file; what the servers say besides,
such as that an endpoint cannot be reached, is for people and stays on standard error.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rollgym.servers.launch.logs import JsonLines

SERVER_LOG = "servers.log"
_REQUESTS = logging.getLogger("rollgym.servers")


class _Divert(logging.Filter):
    """Hands records to a handler, and to nobody else."""

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self._handler = handler

    def filter(self, record: logging.LogRecord) -> bool:
        self._handler.handle(record)
        return False


@contextmanager
def requests_logged_in(directory: Path) -> Iterator[None]:
    """Log requests there, in a file that is made when there is something to log."""
    file = directory / SERVER_LOG
    handler = logging.FileHandler(file, encoding="utf-8", errors="backslashreplace", delay=True)
    handler.setFormatter(JsonLines())
    divert = _Divert(handler)
    _REQUESTS.addFilter(divert)
    try:
        yield
    finally:
        _REQUESTS.removeFilter(divert)
        handler.close()
