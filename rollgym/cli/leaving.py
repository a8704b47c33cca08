"""Ending the process without waiting for anybody.

A worker may have left a thread behind that never ends, and the interpreter would wait for it when
it exits. By the time a command has its status, everything that counts is on disk.
"""

import contextlib
import os
import sys
from typing import NoReturn


def leave(status: int) -> NoReturn:
    """Exit with this status now; only what was printed is still written out.

    Called by a signal's handler it may interrupt the very writing that it asks to end, which Python
    answers with a RuntimeError: what was being printed then is written already, or is lost.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            stream.flush()
    os._exit(status)
