"""Standard streams as they are: of odd encodings, closed, or read by nobody any more."""

import contextlib
import os
import sys
from io import TextIOWrapper
from pathlib import Path


def prepare_streams() -> None:
    """Text that the terminal's encoding lacks is escaped; a closed stream takes everything."""
    _fill_descriptors()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
        elif stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115


def _fill_descriptors() -> None:
    """Where a standard stream is closed, the next file or socket would get its number.

    Processes started later would take that for their own standard stream.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free


def say(text: str) -> None:
    """Print at once. A reader who goes away ends the printing, and nothing else."""
    try:
        print(text, flush=True)
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(text: str) -> None:
    """Print to standard error at once, if anybody reads it."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)
