"""Starting a program that communicates over the descriptors 3 and 4, and reading its output.

`posix_spawn` puts the pipes in place itself: the server is not forked, as it would be for a
function between fork and exec, and no shell is involved. Descriptors that the server opened are
closed on exec, and those that it inherited are closed explicitly. The program leads its own session
and process group, so a Ctrl-C in the terminal of the server does not reach it, and it can be killed
together with its children.

The program cannot raise its priority. Started by root, Chromium would run the threads of pages at
nice -8, and a few pages with endless loops would leave almost no CPU for the server and others.

The standard streams of the program are always read, so that it never blocks on them. Only the end
of the output is kept.
"""

import asyncio
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
"""The ends of pipes are moved above this first, so that none is overwritten too early."""
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_PR_CAPBSET_DROP = 24
_CAP_SYS_NICE = 23


class SpawnedProcess(NamedTuple):
    """A running program and our ends of its pipes. The caller closes them."""

    pid: int
    incoming: int
    outgoing: int
    output: int
    """The pipe of its standard output and error."""


def spawn(command: Sequence[str], environment: Mapping[str, str]) -> SpawnedProcess:
    """Start the program `command[0]`, a path. Raises OSError."""
    ours: list[int] = []
    theirs: list[int] = []
    try:
        incoming, their_outgoing = _pipe(ours, theirs, ours_reads=True)
        output, their_output = _pipe(ours, theirs, ours_reads=True)
        outgoing, their_incoming = _pipe(ours, theirs, ours_reads=False)
        nothing = os.open(os.devnull, os.O_RDONLY)
        theirs.append(nothing)
        descriptors = {
            0: nothing,
            1: their_output,
            2: their_output,
            3: their_incoming,
            4: their_outgoing,
        }
        start = partial(
            os.posix_spawn,
            command[0],
            tuple(command),
            environment,
            file_actions=[
                *((os.POSIX_SPAWN_DUP2, end, number) for number, end in descriptors.items()),
                *((os.POSIX_SPAWN_CLOSE, inherited) for inherited in _inheritable(descriptors)),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_IGNORED_BY_PYTHON,
        )
        # Capabilities belong to a thread and its children. This thread ends; others keep theirs.
        with ThreadPoolExecutor(1, initializer=_drop_priority_capability) as executor:
            pid = executor.submit(start).result()
    except BaseException:
        _close(ours)
        raise
    finally:
        _close(theirs)
    return SpawnedProcess(pid, incoming, outgoing, output)


def _drop_priority_capability() -> None:
    """Fails only without the capability to drop it, and then there is nothing to drop."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_SYS_NICE, 0, 0, 0)


def _inheritable(besides: Container[int]) -> Iterator[int]:
    """Inherited descriptors of the server that its children would inherit too."""
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - a thousand paths would cost more than the rest
        with suppress(OSError):  # the descriptor of this listing is closed by now
            if int(name) not in besides and os.get_inheritable(int(name)):
                yield int(name)


def _pipe(ours: list[int], theirs: list[int], *, ours_reads: bool) -> tuple[int, int]:
    """Our end and the program's end; each is added to its list."""
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


KEPT = 4_000
_AT_ONCE = 1 << 16


class OutputTail:
    """Reads a pipe to its end and closes it. Keeps the last part of what it read."""

    def __init__(self, descriptor: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._kept = b""
        self._ended: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def close(self) -> None:
        """Stop reading. Can be called more than once."""
        if not self._ended.done():
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._ended.set_result(None)

    async def complete(self, seconds: float) -> str:
        """The end of the output, when all writers are gone or after this many seconds."""
        await asyncio.wait({self._ended}, timeout=seconds)
        return self._kept.decode("utf-8", "backslashreplace").strip()

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _AT_ONCE)
        except BlockingIOError:
            return
        if data:
            self._kept = (self._kept + data)[-KEPT:]
        else:
            self.close()
