"""The program of an isolated worker process: imports one function and runs calls of it.

*Run as a file.* The parent runs this file by its path rather than as a module, so that a worker
imports this file and the function's module and no server framework: it starts in a fraction of the
time and memory. So it imports nothing of the package. The parent imports it as a module, for the
messages.

*Messages.* The length in four bytes, then msgpack. The worker first reports whether it could import
the function, then the result of each call, until its input ends.

*Standard streams.* The messages use descriptors 0 and 1, which are moved at once to where the
function cannot reach them. What the function prints, also from C, goes to standard error, and its
standard input is empty.

*Ending.* A worker ends with its parent: an idle one at the end of its input; a busy one on Linux by
a signal when the parent dies, elsewhere by its timers. The timers belong to the kernel: they end a
worker also in a C function that never returns to Python.
"""

import ctypes
import faulthandler
import inspect
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any, BinaryIO

import msgspec

HEADER_SIZE = 4
MESSAGE_LIMIT = 1 << 26
TEXT_LIMIT = 2_000
TRACEBACK_FRAMES = 8
# The parent kills at the deadline; this long after it the worker ends by itself.
TIMER_GRACE = 2.0
_PR_SET_PDEATHSIG = 1

Function = Callable[..., object]


class WorkerSetup(msgspec.Struct, frozen=True):
    """The settings of a worker, passed as its only command line argument."""

    function: str
    search_path: list[str]
    parent: int
    memory_bytes: int | None


class WorkerCall(msgspec.Struct, frozen=True, array_like=True):
    """The arguments of one call, and its timeouts."""

    arguments: tuple[Any, ...]
    timeout: float
    cpu_timeout: float | None


class Returned(msgspec.Struct, frozen=True, array_like=True, tag="returned"):
    """What the function returned."""

    value: Any


class Raised(msgspec.Struct, frozen=True, array_like=True, tag="raised"):
    """What the function raised."""

    error_type: str
    error_message: str
    traceback: str


CallResult = Returned | Raised


def framed(message: msgspec.Struct) -> bytes:
    """Encode a message.

    Raises the encoder's error for a value that cannot be encoded, and ValueError for a message that
    is too large.
    """
    body = msgspec.msgpack.encode(message)
    if len(body) > MESSAGE_LIMIT:
        raise ValueError(f"{len(body)} bytes are more than the limit of {MESSAGE_LIMIT}")
    return len(body).to_bytes(HEADER_SIZE, "big") + body


def main() -> None:
    setup = msgspec.json.decode(sys.argv.pop(), type=WorkerSetup)
    calls, answers = take_standard_streams()
    end_with_parent(setup.parent, signal.SIGKILL)
    _limit(setup.memory_bytes)
    faulthandler.enable()
    sys.path[:] = setup.search_path
    try:
        function = _import(setup.function)
    except BaseException as error:  # noqa: BLE001 - a module may raise anything, also SystemExit
        _send(answers, framed(_raised(error)))
        return
    _send(answers, framed(Returned(None)))
    decoder = msgspec.msgpack.Decoder(WorkerCall)
    while header := calls.read(HEADER_SIZE):
        body = calls.read(int.from_bytes(header, "big"))
        _send(answers, _answer(function, decoder.decode(body)))


def take_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Copy descriptors 0 and 1, which no grandchild inherits, and put harmless ones in place."""
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    return calls, answers


def end_with_parent(parent: int, by: signal.Signals) -> None:
    """End this process by a signal when its parent ends; at once where that has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:  # it died before this process could request the signal
        os._exit(1)


def _limit(memory_bytes: int | None) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes is not None and sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    # A parent may have blocked or ignored these, and both would be inherited.
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _import(name: str) -> Function:
    found: object = resolve_name(name)
    if not callable(found) or inspect.iscoroutinefunction(found):
        raise TypeError(f"{name} is not a plain function")
    return found


def _answer(function: Function, call: WorkerCall) -> bytes:
    signal.setitimer(signal.ITIMER_REAL, call.timeout + TIMER_GRACE)
    signal.setitimer(signal.ITIMER_PROF, call.cpu_timeout or 0)
    try:
        return framed(Returned(function(*call.arguments)))
    except BaseException as error:  # noqa: BLE001 - the caller handles every error
        return framed(_raised(error))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _raised(error: BaseException) -> Raised:
    try:
        message = str(error)
    except Exception as unprintable:  # noqa: BLE001 - its __str__ may do anything
        message = f"(its message cannot be shown: {type(unprintable).__name__})"
    # The first frame belongs to this file.
    frames = traceback.extract_tb(error.__traceback__)[1:][-TRACEBACK_FRAMES:]
    rendered = "".join(traceback.format_list(frames))
    return Raised(
        type(error).__name__, _encodable(message[:TEXT_LIMIT]), _encodable(rendered[-TEXT_LIMIT:])
    )


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _send(answers: BinaryIO, frame: bytes) -> None:
    answers.write(frame)
    answers.flush()


if __name__ == "__main__":
    main()
    os._exit(0)  # rather than wait for threads that the function left behind
