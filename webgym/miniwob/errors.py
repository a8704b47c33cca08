"""Why MiniWoB++ is not served."""

from rollgym.store import RefusedError


class MiniWobError(RefusedError):
    """The pages are not there, or there is no such task, or the port is taken."""


class MissingTaskError(MiniWobError):
    """There is no task of this name."""
