"""What a running program does, as the Linux kernel counts it.

A program that has not ended computes, waits for something of its own choice, or waits for the
machine. Only the kernel can tell these apart: it counts for each thread how long it was ready to
run while the processors were busy, and knows its present state. The program can change neither.
"""

from pathlib import Path
from typing import NamedTuple


class ProgramActivity(NamedTuple):
    """What a program does at this moment, and how long the machine has made it wait.

    `delay` is the longest time that one of its threads was ready to run and waited for a processor.
    `active` says that a thread runs, could run, or waits for a disk.
    """

    delay: float
    active: bool


def program_activity(launcher: int) -> ProgramActivity | None:
    """The activity of a launcher's program; None where the system does not say, or it has ended."""
    try:
        (child,) = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        threads = list(Path(f"/proc/{child}/task").iterdir())
        delays = [int((thread / "schedstat").read_text().split()[1]) for thread in threads]
        # The state follows the name of the program, which stands in brackets.
        states = [(thread / "stat").read_text().rpartition(")")[2].split()[0] for thread in threads]
    except (OSError, ValueError, IndexError):
        return None
    return ProgramActivity(max(delays) / 1e9, any(state in "RD" for state in states))
