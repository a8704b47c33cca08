"""Starting a program that is spoken to over the descriptors 3 and 4.

`posix_spawn` puts the pipes in their places itself: the server is not forked, as it would be for a
function between fork and exec, and there is no shell in between. The descriptors that the server
opened close by themselves, and those that it was itself given are closed. The program leads a
session and a process group of its own, so a Ctrl-C in the server's terminal does not reach it, and
it can be killed with all that it started.

It cannot raise its priority. Started by root, Chromium would run the threads of pages at nice -8,
and a few pages that loop would leave next to nothing of the machine to the server and all others.
"""

import ctypes
import fcntl
import os
import signal
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NamedTuple

_ABOVE_STANDARD = 10
"""The ends of pipes are moved up here first, so that none is overwritten before it is in place."""
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_PR_CAPBSET_DROP = 24
_CAP_SYS_NICE = 23


class Spawned(NamedTuple):
    """A running program and our ends of its pipes, which the caller closes."""

    pid: int
    incoming: int
    outgoing: int
    output: int
    """What it writes to its standard streams."""


def spawn(command: Sequence[str], environment: Mapping[str, str]) -> Spawned:
    """Start the program `command[0]`, a path. Raises OSError."""
    ours: list[int] = []
    theirs: list[int] = []
    try:
        incoming, their_outgoing = _pipe(ours, theirs, ours_reads=True)
        output, their_output = _pipe(ours, theirs, ours_reads=True)
        outgoing, their_incoming = _pipe(ours, theirs, ours_reads=False)
        nothing = os.open(os.devnull, os.O_RDONLY)
        theirs.append(nothing)
        places = {
            0: nothing,
            1: their_output,
            2: their_output,
            3: their_incoming,
            4: their_outgoing,
        }
        begin = partial(
            os.posix_spawn,
            command[0],
            tuple(command),
            environment,
            file_actions=[
                *((os.POSIX_SPAWN_DUP2, end, place) for place, end in places.items()),
                *((os.POSIX_SPAWN_CLOSE, inherited) for inherited in _inheritable(places)),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_IGNORED_BY_PYTHON,
        )
        # Capabilities are a thread's, and its children's: this one ends, and ours keeps its own.
        with ThreadPoolExecutor(1, initializer=_give_up_priorities) as apart:
            pid = apart.submit(begin).result()
    except BaseException:
        _close(ours)
        raise
    finally:
        _close(theirs)
    return Spawned(pid, incoming, outgoing, output)


def _give_up_priorities() -> None:
    """Whoever is not allowed to give them up does not have them."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_SYS_NICE, 0, 0, 0)


def _inheritable(besides: Container[int]) -> Iterator[int]:
    """Descriptors that whoever started the server left open for its children."""
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - a thousand paths would cost more than the rest
        with suppress(OSError):  # the one for this list itself is closed by now
            if int(name) not in besides and os.get_inheritable(int(name)):
                yield int(name)


def _pipe(ours: list[int], theirs: list[int], *, ours_reads: bool) -> tuple[int, int]:
    """Our end and theirs, each noted in its list."""
    reading, writing = os.pipe()
    our_end, their_end = (reading, writing) if ours_reads else (writing, reading)
    ours.append(our_end)
    try:
        moved = fcntl.fcntl(their_end, fcntl.F_DUPFD_CLOEXEC, _ABOVE_STANDARD)
    finally:
        os.close(their_end)
    theirs.append(moved)
    return our_end, moved


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
