"""Runs the program, in a process that is confined already.

The server does not trust this process: the program shares it and can change everything in it. Only
bytes leave the process, and the server compares them with the right answer.

*Standard input.* The program runs as `__main__`; what it prints is the answer.
*Call.* The program is imported and one of its functions is called; the result as JSON is the
answer. What the program prints goes to the error stream.
"""

from __future__ import annotations

import builtins
import os
import sys
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FILE_NAME = "solution.py"
OUT_OF_MEMORY = 86
FRAMES_SHOWN = 10


def run(source: str) -> None:
    """Run a program that reads its input and prints its answer."""
    _guard(lambda: _load(source, "__main__"), source)


def call(source: str, entry_point: str, arguments: Sequence[object]) -> None:
    """Call a function of the program and write its result, or why it is not JSON, as the answer."""
    answers = os.dup(1)
    os.dup2(2, 1)

    def work() -> None:
        function = _find(_load(source, "solution"), entry_point)
        with os.fdopen(answers, "wb") as stream:
            stream.write(_encode(function(*arguments)))

    _guard(work, source)


def _load(source: str, name: str) -> ModuleType:
    module = ModuleType(name)
    sys.modules[name] = module
    sys.argv = [FILE_NAME]
    # An interpreter without `site` does not have these two.
    vars(builtins).update(exit=sys.exit, quit=sys.exit)
    exec(compile(source, FILE_NAME, "exec"), module.__dict__)  # noqa: S102 - the purpose of the sandbox
    return module


def _find(module: ModuleType, entry_point: str) -> Callable[..., object]:
    """Find the function. `Solution.two_sum` is a method of a new instance of `Solution`.

    A function may also be a method of the program's class `Solution`.
    """
    found: Callable[..., object] | ModuleType = module
    names = entry_point.split(".")
    if hasattr(getattr(module, "Solution", None), names[0]):
        names.insert(0, "Solution")
    for name in names:
        found = getattr(found() if isinstance(found, type) else found, name)
    if not callable(found):
        raise TypeError(f"{entry_point} is not a function")
    return found


def _encode(result: object) -> bytes:
    import json  # noqa: PLC0415 - most programs do not need it

    try:
        return json.dumps({"result": result}, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return json.dumps({"unusable": f"{type(error).__name__}: {error}"}).encode()


def _guard(work: Callable[[], object], source: str) -> None:
    """End as the interpreter would, except that the frames of this file are not shown."""
    try:
        work()
    except SystemExit:
        raise
    except MemoryError:
        os.write(2, b"MemoryError\n")
        os._exit(OUT_OF_MEMORY)
    except BaseException as error:  # noqa: BLE001 - the program may raise anything
        _show(error, source)
        sys.exit(1)


def _show(error: BaseException, source: str) -> None:
    import linecache  # noqa: PLC0415 - only for programs that fail
    import traceback  # noqa: PLC0415

    lines = source.splitlines(keepends=True)
    linecache.cache[FILE_NAME] = (len(source), None, lines, FILE_NAME)
    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename != FILE_NAME:
        frames = frames.tb_next
    # Rendering all frames of an endless recursion takes as long as running it.
    traceback.print_exception(type(error), error, frames, limit=-FRAMES_SHOWN)
