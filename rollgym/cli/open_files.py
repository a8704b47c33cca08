"""Room for as many connections as a collection may have in flight.

Systems allow a process a thousand open files by default, and much more to one that asks.
"""

import contextlib
import resource

ENOUGH = 1 << 16


def allow_many_open_files() -> None:
    """Ask for as many as the system gives without further rights, at most `ENOUGH`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # a system may refuse what it promised
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
