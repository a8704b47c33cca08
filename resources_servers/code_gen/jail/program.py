"""Running the program, in a process that has nothing left to lose.

Nothing here is trusted by anybody: the program shares this process and may do with it what it
likes. Whatever it makes of that, all that leaves the process is bytes, and they count only where
they are the right answer.

*Standard input.* The program runs as `__main__`; what it prints is the answer.
*Call.* The program is imported, one of its functions is called, and the result written as JSON is
the answer. What it prints meanwhile goes to the error stream.
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
    """Call a program's function and write its result, or why it is none, as the answer."""
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
    # An interpreter without `site` lacks these two.
    vars(builtins).update(exit=sys.exit, quit=sys.exit)
    exec(compile(source, FILE_NAME, "exec"), module.__dict__)  # noqa: S102 - what all this is for
    return module


def _find(module: ModuleType, entry_point: str) -> Callable[..., object]:
    """A dotted name leads into a class, through an instance of it: `Solution.two_sum`."""
    found: Callable[..., object] | ModuleType = module
    for name in entry_point.split("."):
        found = getattr(found() if isinstance(found, type) else found, name)
    if not callable(found):
        raise TypeError(f"{entry_point} is not a function")
    return found


def _encode(result: object) -> bytes:
    import json  # noqa: PLC0415 - most programs do without

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
    import linecache  # noqa: PLC0415 - both are for programs that fail
    import traceback  # noqa: PLC0415

    lines = source.splitlines(keepends=True)
    linecache.cache[FILE_NAME] = (len(source), None, lines, FILE_NAME)
    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename != FILE_NAME:
        frames = frames.tb_next
    # Rendering the frames of an endless recursion would take as long again as running it.
    traceback.print_exception(type(error), error, frames, limit=-FRAMES_SHOWN)
