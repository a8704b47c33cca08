"""Code that users plug in: entry points of packages, and functions that settings name.

Importing it may raise anything, and a function may never return. Nor may a call of a dead disk, so
the store waits in a daemon thread, too.
"""

import asyncio
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


def load_plugin(point: "EntryPoint", what: str, error_of: Callable[[str], Exception]) -> Any:
    """The object that an entry point names. `what` names it in the message of `error_of`."""
    try:
        return point.load()
    except Exception as error:  # a module may raise anything when it is imported
        raise error_of(
            f"{what} {point.name} ({point.value}) cannot be loaded "
            f"({type(error).__name__}: {error}): fix or uninstall its package"
        ) from error


def find_named(name: str) -> Any:
    """What `module:name` names, also in the working directory. Raises what the import raises."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)  # the console script does not add it
    return resolve_name(name)


def start_daemon_thread(
    work: Callable[[], T], name: str
) -> tuple[threading.Thread, "asyncio.Future[T]"]:
    """Run `work` in a new thread, with this context; the thread, and the result or error.

    A function that never returns delays neither other work nor the end of the process, and uses up
    no thread of a pool. What is not an Exception, such as SystemExit, becomes a RuntimeError.
    """
    loop, context = asyncio.get_running_loop(), copy_context()
    done: asyncio.Future[T] = loop.create_future()

    def finish(result: Any, error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        result: Any = None
        caught: Exception | None = None
        try:
            result = context.run(work)
        except StopIteration as error:  # a future cannot have it
            caught = RuntimeError(f"StopIteration: {error}")
        except BaseException as error:  # noqa: BLE001 - it may raise anything
            caught = error if isinstance(error, Exception) else RuntimeError(repr(error))
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(finish, result, caught)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread, done


async def run_in_daemon_thread(work: Callable[[], T], name: str) -> T:
    """The result of `work` in a new thread. It is abandoned when the caller is cancelled."""
    return await start_daemon_thread(work, name)[1]
