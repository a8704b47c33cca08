"""What a command's errors mean to the shell: a message on stderr and an exit status.

A traceback is for bugs only. Refusals and broken disks are part of the work, and their messages say
what to do.
"""

import os
import sys
from collections.abc import Callable

from rollgym.engine import EngineError, ExitStatus
from rollgym.monitor import printable_line
from rollgym.store import RefusedError, StorageError

CRASHED = 1
BROKEN_PIPE = 128 + 13
"""What a shell reports of a program that SIGPIPE ended, as `rollgym profile | head` does."""


def guarded(command: Callable[[], int]) -> int:
    """Run a command; the exit status, also of one that raised."""
    try:
        status = command()
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        return BROKEN_PIPE
    except RefusedError as error:
        return _complain(error, ExitStatus.REFUSED)
    except StorageError as error:
        return _complain(error, ExitStatus.STORAGE)
    except EngineError as error:
        return _complain(error, CRASHED)
    except KeyboardInterrupt:
        print("\nrollgym: stopped at once; whatever was recorded is kept", file=sys.stderr)
        return ExitStatus.INTERRUPTED
    return status


def _complain(error: Exception, status: int) -> int:
    notes: list[str] = getattr(error, "__notes__", [])
    for line in "\n".join([f"rollgym: {error}", *notes]).splitlines():
        indent = line[: len(line) - len(line.lstrip(" "))]
        print(indent + printable_line(line, limit=4_000), file=sys.stderr)
    return status


def _silence_stdout() -> None:
    """Keep the interpreter from flushing into the broken pipe when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
