"""What can go wrong with servers, once their configuration is sound."""

from rollgym.store import RefusedError

TAIL_LINES = 10


class StartError(RefusedError):
    """A server did not come up, and everything that had was stopped again."""


class NoHeadError(RefusedError):
    """No `ng_run` answers where it was looked for."""


class ServerLostError(Exception):
    """A server's process died more often than it may be restarted."""


def with_tail(message: str, tail: list[str]) -> str:
    """The message, and under it the last lines that a process wrote."""
    if not tail:
        return f"{message}; it wrote nothing"
    shown = "\n".join(f"    {line}" for line in tail[-TAIL_LINES:])
    return f"{message}. The last lines it wrote:\n{shown}"
